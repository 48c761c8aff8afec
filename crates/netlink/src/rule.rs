//! Policy routing rules, which select the table for a packet (ip-rule(8)).

use std::io;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::{Netlink, Object, Prefix};

/// A rule. Selectors without a field here (ports, tunnels, users, …) only set `other`, which merely keeps
/// rules apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Priority: rules are evaluated in this order.
    pub priority: u32,
    /// Source network; length 0: any.
    pub from: Prefix,
    /// Destination network; length 0: any.
    pub to: Prefix,
    /// Name of the incoming interface; empty: any.
    pub incoming_interface: String,
    /// Firewall mark, and its mask; (0, 0): any.
    pub mark: (u32, u32),
    /// True if the match is inverted.
    pub inverted: bool,
    /// Table to look up; `None`: the rule has another action.
    pub table: Option<u32>,
    /// True if it has further selectors.
    pub other: bool,
}

impl Netlink {
    /// Adds a rule by which all packets of a family are looked up in a table.
    ///
    /// # Errors
    /// EEXIST: there is such a rule. EAFNOSUPPORT or EOPNOTSUPP: the kernel has no rules of this family. EPERM.
    pub fn add_table_rule(&self, is_ipv4: bool, priority: u32, table: u32) -> io::Result<()> {
        let message = to_table(is_ipv4, priority, table);
        self.change(RouteNetlinkMessage::NewRule(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes such a rule.
    ///
    /// # Errors
    /// ENOENT: there is none. EAFNOSUPPORT or EOPNOTSUPP: the kernel has no rules of this family. EPERM.
    pub fn delete_table_rule(&self, is_ipv4: bool, priority: u32, table: u32) -> io::Result<()> {
        self.change(RouteNetlinkMessage::DelRule(to_table(is_ipv4, priority, table)), 0)
    }
}

fn to_table(is_ipv4: bool, priority: u32, table: u32) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if is_ipv4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![RuleAttribute::Priority(priority), RuleAttribute::Table(table)];
    message
}

impl Object for Rule {
    /// The whole rule, since rules never change.
    type Id = Self;
    type Variant = ();

    fn wanted() -> RouteNetlinkMessage {
        RouteNetlinkMessage::GetRule(RuleMessage::default())
    }

    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)> {
        match message {
            RouteNetlinkMessage::NewRule(message) => Some((true, Self::of(message)?)),
            RouteNetlinkMessage::DelRule(message) => Some((false, Self::of(message)?)),
            _ => None,
        }
    }

    fn key(&self) -> (Self, ()) {
        (self.clone(), ())
    }
}

impl Rule {
    /// Returns `None` if it is no rule of IPv4 or IPv6.
    fn of(message: RuleMessage) -> Option<Self> {
        let header = &message.header;
        let any = Prefix::any(header.family)?;
        let to_table = header.action == RuleAction::ToTable;
        let mut rule = Self {
            priority: 0,
            from: Prefix::new(any.ip, header.src_len)?,
            to: Prefix::new(any.ip, header.dst_len)?,
            incoming_interface: String::new(),
            mark: (0, 0),
            inverted: header.flags.contains(RuleFlags::Invert),
            table: to_table.then_some(header.table.into()),
            other: header.tos != 0,
        };
        for attribute in message.attributes {
            rule.take(attribute, to_table);
        }
        Some(rule)
    }

    fn take(&mut self, attribute: RuleAttribute, to_table: bool) {
        match attribute {
            RuleAttribute::Priority(priority) => self.priority = priority,
            RuleAttribute::Source(ip) => self.from.ip = ip,
            RuleAttribute::Destination(ip) => self.to.ip = ip,
            RuleAttribute::Iifname(name) => self.incoming_interface = name,
            RuleAttribute::FwMark(mark) => self.mark.0 = mark,
            RuleAttribute::FwMask(mask) => self.mark.1 = mask,
            RuleAttribute::Table(table) if to_table => self.table = Some(table),
            RuleAttribute::Oifname(_)
            | RuleAttribute::TunId(_)
            | RuleAttribute::L3MDev(true)
            | RuleAttribute::UidRange(_)
            | RuleAttribute::IpProtocol(_)
            | RuleAttribute::SourcePortRange(_)
            | RuleAttribute::DestinationPortRange(_) => self.other = true,
            _ => {}
        }
    }
}
