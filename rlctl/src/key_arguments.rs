//! The arguments of `rlctl keys`.

use clap::{Args, Subcommand};

/// What can be asked about keys.
#[derive(Debug, Subcommand)]
pub enum KeysVerb {
    /// Show the keys that are closest to a limit
    #[command(
        after_help = "Examples:\n  rlctl keys top users\n  rlctl keys top users --rows 100 --json"
    )]
    Top {
        /// Name of the key space: that of `[keys.NAME]`
        space: String,
        /// Number of keys
        #[arg(
            long,
            short = 'n',
            value_name = "N",
            default_value_t = 20,
            value_parser = clap::value_parser!(u32).range(1..=10_000),
        )]
        rows: u32,
    },
    /// Show the usage of a key, without charging it
    #[command(after_help = "Examples:\n  rlctl keys check users alice")]
    Check(KeyArguments),
    /// Reset the usage of a key
    #[command(after_help = "Examples:\n  rlctl keys reset users alice")]
    Reset(KeyArguments),
}

/// `SPACE KEY`
#[derive(Args, Debug)]
pub struct KeyArguments {
    /// Name of the key space: that of `[keys.NAME]`
    pub space: String,
    /// The key, as the application or proxy names it
    pub key: String,
}
