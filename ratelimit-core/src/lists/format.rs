//! The formats of lists. `formats.rs` recognizes them, and has a file for each.

/// The format of a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::Display, strum::VariantArray)]
pub enum Format {
    /// An address, a prefix or a range a line, with a comment or a number behind it.
    #[strum(to_string = "plain")]
    Plain,
    /// Plain text with the header of `FireHOL`.
    #[strum(to_string = "FireHOL netset")]
    Netset,
    /// A text list of Spamhaus, with the number of the listing behind `;`.
    #[strum(to_string = "Spamhaus DROP text")]
    DropText,
    /// JSON lines of Spamhaus.
    #[strum(to_string = "Spamhaus DROP JSON")]
    DropJson,
    /// JSON lines of `rlctl export`.
    #[strum(to_string = "JSON lines")]
    Own,
    /// The output of `ipset save` and `ipset list`, and the input of `ipset restore`.
    #[strum(to_string = "ipset save")]
    Ipset,
    /// The output of `ipset -o xml`, also used by firewalld, and aliases of pfSense and `OPNsense`.
    #[strum(to_string = "XML of ipset, firewalld or pfSense")]
    IpsetXml,
    /// The output of `nft list set`, and the input of `nft -f`.
    #[strum(to_string = "nft")]
    Nft,
    /// The output and input of `nft -j`.
    #[strum(to_string = "nft JSON")]
    NftJson,
    /// The output of `cscli decisions list -o raw`, and the input of `cscli decisions import`.
    #[strum(to_string = "CrowdSec CSV")]
    CrowdSecCsv,
    /// The output of `cscli decisions list -o json` and `cscli alerts list -o json`, and the input
    /// of `cscli decisions import`.
    #[strum(to_string = "CrowdSec JSON")]
    CrowdSecJson,
    /// The output of `fail2ban-client`: `banned`, `status JAIL`, and `get JAIL banip --with-time`.
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
    /// The output of `iptables-save`, `iptables -S` and `iptables -L -n`, and commands for
    /// iptables.
    #[strum(to_string = "iptables")]
    Iptables,
    /// The output of `ufw status`, and commands for ufw.
    #[strum(to_string = "ufw")]
    Ufw,
    /// The output of `export` in `RouterOS`.
    #[strum(to_string = "MikroTik")]
    MikroTik,
    /// `pf.conf`.
    #[strum(to_string = "pf")]
    Pf,
    /// `acl` of BIND and Varnish, `prefix-list` of Junos, and groups of `VyOS`.
    #[strum(to_string = "list in braces")]
    Blocks,
    /// `config firewall address`.
    #[strum(to_string = "FortiGate")]
    FortiGate,
    /// Lines of other tools that drop: Suricata, Cisco, `HAProxy`, routes, Tor's exits.
    #[strum(to_string = "rules")]
    Rules,
    /// A `MaxMind` database, of which a list selects countries or networks.
    #[strum(to_string = "mmdb")]
    Mmdb,
}
