//! The answer of the pipeline: what happens to a packet, and why.

/// The fate of a packet, with the one reason under which it is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The packet continues to the network stack.
    Pass(PassReason),
    /// The packet is dropped.
    Drop(DropReason),
    /// The packet would have been dropped, and passes: a dry run.
    Observe(DropReason),
}

/// The reason a packet passes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum PassReason {
    /// Not IP: ARP, LLDP, LACP and the like.
    NotIp = 0,
    /// IPv6 neighbour discovery, within its budget: without it the host drops off the link.
    NeighbourDiscovery = 1,
    /// The source is on the allow list.
    Allowed = 2,
    /// Every limit had room.
    Conforming = 3,
    /// No limit applies to the source.
    Unlimited = 4,
    /// Everything passes, by the word of an operator.
    PassAll = 5,
    /// The source has no state, and the budget for new ones is spent: it passes, or its overflow
    /// bucket had room.
    NewSources = 6,
    /// The packet is of a class that is exempt from limits.
    Exempt = 7,
    /// The packet proves that its source receives what is sent to it.
    Verified = 8,
    /// A limit had no room, and the second allowance for established connections had.
    Established = 9,
}

/// The reason a packet is dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum DropReason {
    /// The source is banned.
    Banned = 0,
    /// A limit of the source's policy had no room.
    Limited = 1,
    /// The frame ends before its source address.
    Truncated = 2,
    /// More VLAN tags than are looked through.
    VlanDepth = 3,
    /// More IPv6 extension headers than are looked through.
    ExtensionDepth = 4,
    /// Other CPUs changed the source's state at every try.
    Contended = 5,
    /// No state could be created for the source: there is no room, or all room of a `compact` table
    /// is used.
    NoState = 6,
    /// A limit of the wider prefix around the source had no room.
    AggregateLimited = 7,
    /// A limit of the node had no room.
    NodeLimited = 8,
    /// The source has no state, and the budget for new ones is spent.
    NewSources = 9,
    /// The source is an address that no packet can come from: one of a group, or all of a network.
    InvalidSource = 10,
    /// IPv6 neighbour discovery beyond its budget.
    NeighbourDiscovery = 11,
    /// The packet is of a class that is dropped.
    Class = 12,
    /// A limit of the packet's destination had no room.
    DestinationLimited = 13,
    /// A limit of each source to the packet's destination had no room.
    SourceToDestinationLimited = 14,
    /// The source is not verified: what asks for a connection was answered, and goes no further.
    Challenged = 15,
    /// The frame ends in the headers of a tunnel that is looked into, or before the source address
    /// of the packet inside.
    TunnelTruncated = 16,
    /// More MPLS labels than are looked through, or a packet inside that begins too far behind the
    /// front.
    TunnelDepth = 17,
    /// The policy of the source drops every packet.
    Policy = 18,
}

/// The number of verdicts that are counted apart.
pub const VERDICTS: usize = PassReason::ALL.len() + 2 * DropReason::ALL.len();

impl Verdict {
    /// The place of the verdict among the counters, below [`VERDICTS`].
    #[inline(always)]
    #[expect(clippy::arithmetic_side_effects, reason = "the sum is below VERDICTS")]
    pub const fn index(self) -> usize {
        const PASS: usize = PassReason::ALL.len();
        const DROP: usize = DropReason::ALL.len();
        match self {
            Self::Pass(reason) => reason as usize,
            Self::Drop(reason) => PASS + reason as usize,
            Self::Observe(reason) => PASS + DROP + reason as usize,
        }
    }

    /// The verdict of a dry run: what would be dropped is observed.
    #[inline(always)]
    pub const fn observed(self) -> Self {
        match self {
            Self::Drop(reason) => Self::Observe(reason),
            Self::Pass(_) | Self::Observe(_) => self,
        }
    }

    /// Every verdict, in the order of [`index`](Self::index).
    pub fn all() -> impl Iterator<Item = Self> {
        let pass = PassReason::ALL.into_iter().map(Self::Pass);
        let drop = DropReason::ALL.into_iter().map(Self::Drop);
        let observe = DropReason::ALL.into_iter().map(Self::Observe);
        pass.chain(drop).chain(observe)
    }

    /// The label of the action in metrics and tables.
    pub const fn action(self) -> &'static str {
        match self {
            Self::Pass(_) => "pass",
            Self::Drop(_) => "drop",
            Self::Observe(_) => "observe",
        }
    }

    /// The label of the reason in metrics and tables.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Pass(reason) => reason.label(),
            Self::Drop(reason) | Self::Observe(reason) => reason.label(),
        }
    }
}

impl PassReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 10] = [
        Self::NotIp,
        Self::NeighbourDiscovery,
        Self::Allowed,
        Self::Conforming,
        Self::Unlimited,
        Self::PassAll,
        Self::NewSources,
        Self::Exempt,
        Self::Verified,
        Self::Established,
    ];

    /// The reason whose number is `number`.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The label in metrics and tables.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NotIp => "not-ip",
            Self::NeighbourDiscovery => "neighbour-discovery",
            Self::Allowed => "allowed",
            Self::Conforming => "conforming",
            Self::Unlimited => "unlimited",
            Self::PassAll => "pass-all",
            Self::NewSources => "new-sources",
            Self::Exempt => "exempt",
            Self::Verified => "verified",
            Self::Established => "established",
        }
    }
}

impl DropReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 19] = [
        Self::Banned,
        Self::Limited,
        Self::Truncated,
        Self::VlanDepth,
        Self::ExtensionDepth,
        Self::Contended,
        Self::NoState,
        Self::AggregateLimited,
        Self::NodeLimited,
        Self::NewSources,
        Self::InvalidSource,
        Self::NeighbourDiscovery,
        Self::Class,
        Self::DestinationLimited,
        Self::SourceToDestinationLimited,
        Self::Challenged,
        Self::TunnelTruncated,
        Self::TunnelDepth,
        Self::Policy,
    ];

    /// The reason whose number is `number`.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the source itself is the reason: its neighbours are not its fault, and neither are
    /// those who fill the table. A class is refused to every source.
    #[inline(always)]
    pub const fn is_of_source(self) -> bool {
        !matches!(
            self,
            Self::AggregateLimited
                | Self::NodeLimited
                | Self::DestinationLimited
                | Self::NoState
                | Self::NewSources
                | Self::Class
                | Self::Challenged
        )
    }

    /// Whether the refusing limits are shared with other sources. So no prefix of the source is
    /// responsible. Limits of a source to one destination are its own.
    pub const fn is_of_others(self) -> bool {
        matches!(
            self,
            Self::AggregateLimited
                | Self::NodeLimited
                | Self::DestinationLimited
                | Self::SourceToDestinationLimited
        )
    }

    /// The label in metrics and tables.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Banned => "banned",
            Self::Limited => "limited",
            Self::Truncated => "truncated",
            Self::VlanDepth => "vlan-depth",
            Self::ExtensionDepth => "extension-depth",
            Self::Contended => "contended",
            Self::NoState => "no-state",
            Self::AggregateLimited => "subnet-limited",
            Self::NodeLimited => "node-limited",
            Self::NewSources => "new-sources",
            Self::InvalidSource => "invalid-source",
            Self::NeighbourDiscovery => "neighbour-discovery",
            Self::Class => "class",
            Self::DestinationLimited => "destination-limited",
            Self::SourceToDestinationLimited => "source-to-destination-limited",
            Self::Challenged => "challenged",
            Self::TunnelTruncated => "tunnel-truncated",
            Self::TunnelDepth => "tunnel-depth",
            Self::Policy => "policy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_has_a_counter_of_its_own() {
        let indices: std::vec::Vec<usize> = Verdict::all().map(Verdict::index).collect();
        let expected: std::vec::Vec<usize> = (0..VERDICTS).collect();
        assert_eq!(indices, expected);
    }

    #[test]
    fn reasons_are_found_by_their_numbers() {
        for reason in DropReason::ALL {
            assert_eq!(DropReason::from_number(reason as u8), Some(reason));
        }
        assert_eq!(DropReason::from_number(19), None);
        for reason in PassReason::ALL {
            assert_eq!(PassReason::from_number(reason as u8), Some(reason));
        }
        assert_eq!(PassReason::from_number(10), None);
    }
}
