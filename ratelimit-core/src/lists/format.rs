//! The formats of lists. `formats.rs` tells them apart, and has a file for each.

/// How a list is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::Display)]
pub enum Format {
    /// An address, a prefix or a range a line.
    #[strum(to_string = "plain")]
    Plain,
    /// The same, with the head that `FireHOL` writes.
    #[strum(to_string = "FireHOL netset")]
    Netset,
    /// The same, from Spamhaus, with the number of the listing behind `;`.
    #[strum(to_string = "Spamhaus DROP text")]
    DropText,
    /// JSON lines of Spamhaus.
    #[strum(to_string = "Spamhaus DROP JSON")]
    DropJson,
    /// JSON lines of `rlctl export`.
    #[strum(to_string = "JSON lines")]
    Own,
    /// What `ipset save` writes and `ipset restore` reads.
    #[strum(to_string = "ipset save")]
    Ipset,
    /// What `nft list set` writes and `nft -f` reads.
    #[strum(to_string = "nft")]
    Nft,
    /// What `nft -j` writes and reads.
    #[strum(to_string = "nft JSON")]
    NftJson,
    /// What `cscli decisions list -o raw` writes, and `cscli decisions import` reads.
    #[strum(to_string = "CrowdSec CSV")]
    CrowdSecCsv,
    /// What `cscli decisions list -o json` writes, and `cscli decisions import` reads.
    #[strum(to_string = "CrowdSec JSON")]
    CrowdSecJson,
}
