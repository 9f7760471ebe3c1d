//! The formats of lists. `formats.rs` tells them apart, and has a file for each.

/// How a list is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::Display, strum::VariantArray)]
pub enum Format {
    /// An address, a prefix or a range a line, with a comment or a number behind it.
    #[strum(to_string = "plain")]
    Plain,
    /// Plain text with the header of `FireHOL`.
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
    /// What `ipset save` and `ipset list` write, and `ipset restore` reads.
    #[strum(to_string = "ipset save")]
    Ipset,
    /// What `ipset -o xml` writes, and firewalld keeps its sets in.
    #[strum(to_string = "XML of ipset or firewalld")]
    IpsetXml,
    /// What `nft list set` writes and `nft -f` reads.
    #[strum(to_string = "nft")]
    Nft,
    /// What `nft -j` writes and reads.
    #[strum(to_string = "nft JSON")]
    NftJson,
    /// What `cscli decisions list -o raw` writes, and `cscli decisions import` reads.
    #[strum(to_string = "CrowdSec CSV")]
    CrowdSecCsv,
    /// What `cscli decisions list -o json` and `cscli alerts list -o json` write, and `cscli decisions import` reads.
    #[strum(to_string = "CrowdSec JSON")]
    CrowdSecJson,
    /// What `fail2ban-client` writes: `banned`, `status JAIL`, and `get JAIL banip --with-time`.
    #[strum(to_string = "fail2ban")]
    Fail2ban,
    /// A column of a table.
    #[strum(to_string = "CSV")]
    Csv,
    /// The texts under a key of any JSON.
    #[strum(to_string = "JSON")]
    Json,
    /// The ranges of `.p2p` and `.dat` files, with a name before or behind them.
    #[strum(to_string = "P2P ranges")]
    Ranges,
    /// `hosts.deny` of TCP wrappers.
    #[strum(to_string = "hosts.deny")]
    HostsDeny,
    /// `deny` of nginx, and `Deny from` and `Require not ip` of Apache.
    #[strum(to_string = "nginx or Apache")]
    WebServer,
    /// What `iptables-save`, `iptables -S` and `iptables -L -n` write, and commands for iptables.
    #[strum(to_string = "iptables")]
    Iptables,
    /// What `ufw status` writes, and commands for ufw.
    #[strum(to_string = "ufw")]
    Ufw,
    /// What `export` of `RouterOS` writes.
    #[strum(to_string = "MikroTik")]
    MikroTik,
    /// `pf.conf`.
    #[strum(to_string = "pf")]
    Pf,
    /// Lines of other tools that drop: Suricata, Cisco, `HAProxy`, routes, Tor's exits.
    #[strum(to_string = "rules")]
    Rules,
}
