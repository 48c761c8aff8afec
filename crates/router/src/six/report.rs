//! Multicast listener reports (MLDv2, RFC 3810; MLDv1 where a router or switch asks by that): switches that snoop pass
//! solicitations on only if their groups were reported.

use frame::ipv6::{Opt, Options, next};
use frame::{ethernet, icmpv6, ipv6, mld};

use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::six::letter::Letter;
use crate::six::local::Arrived;
use crate::slow::Origin;

/// Maximum number of milliseconds for which an answer to a query is delayed.
const LONGEST_DELAY: u64 = 10_000;
/// Milliseconds after a query of version 1 in which reports have that version (RFC 3810, 9.12).
const VERSION_1_LIFE: u64 = 260_000;

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Reports the groups of a NIC.
    pub(crate) fn report<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        nic: usize,
        record: mld::Record,
    ) {
        // Before its address is confirmed a node reports from the unspecified one (RFC 3590).
        let (source, now) = (self.link_local(nic).unwrap_or(0), self.now);
        let Some(own) = self.nics.get_mut(nic).filter(|own| own.six.is_on()) else { return };
        own.six.report_due = None;
        let groups = own.six.groups();
        if now < own.six.reports_v1_until {
            for group in groups {
                let letter = Letter::report(nic, source, group);
                self.originate6(platform, &letter, |payload| mld::write_report_v1(group, payload));
            }
            return;
        }
        let letter = Letter::report(nic, source, ipv6::ALL_MLD_ROUTERS);
        self.originate6(platform, &letter, |payload| mld::write_report(record, groups.into_iter(), payload));
    }

    /// Handles a query: the groups are reported within the time that it allows.
    pub(crate) fn hear_query<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        arrived: &Arrived<'_>,
    ) {
        let (header, nic) = (arrived.header, usize::from(arrived.nic));
        let message =
            buffer.octets().get(ethernet::HEADER + arrived.at..ethernet::HEADER + header.total_len());
        let parsed = message.map(icmpv6::Header::parse_quoted).and_then(Result::ok);
        let query = parsed.and_then(|(message, payload)| mld::Query::parse(&message, payload).ok());
        let alerts = header.next_header == next::HOP_BY_HOP && has_router_alert(buffer.octets());
        let local = ipv6::is_link_local(header.source) && header.hop_limit == 1 && alerts;
        let Some(query) = query.filter(|_| local) else {
            let origin = Origin::Received(arrived.nic);
            return self.discard(platform, buffer, origin, &self.counters.drop_local);
        };
        self.counters.consumed.add(1);
        platform.free(buffer);
        let delay = self.random(u64::from(query.within).clamp(1, LONGEST_DELAY));
        let due = self.now.saturating_add(delay);
        let own = &mut self.nics[nic].six;
        if query.is_v1 {
            own.reports_v1_until = self.now.saturating_add(VERSION_1_LIFE);
        }
        if query.group == 0 || own.listens(query.group) {
            own.report_due = Some(own.report_due.map_or(due, |earlier| earlier.min(due)));
        }
    }
}

/// Returns true if there is a router alert, as in each query (RFC 3810, 6.2), in the options behind the fixed header of a frame.
fn has_router_alert(frame: &[u8]) -> bool {
    let packet = frame.get(ethernet::HEADER..).unwrap_or(&[]);
    let options = Options::new(packet, ipv6::HEADER);
    options.is_ok_and(|options| options.flatten().any(|option| option.kind == Opt::ROUTER_ALERT))
}
