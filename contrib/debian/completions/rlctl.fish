COMPLETE=fish rlctl | source
