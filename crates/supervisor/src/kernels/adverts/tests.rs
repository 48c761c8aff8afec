use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::rc::Rc;

use frame::nd::{self, RouterAdvert, option};
use frame::{checksum, icmpv6};
use uplink::datagrams::Origin;

use super::interface::Socket;
use super::*;

const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const NODES: Ipv6Addr = Ipv6Addr::from_bits(ipv6::ALL_NODES);
/// A solicitation with the sender's Ethernet address.
const NAMED: [u8; 16] = [nd::ROUTER_SOLICIT, 0, 0, 0, 0, 0, 0, 0, option::SOURCE_MAC, 1, 2, 0, 0, 0, 0, 9];

/// Stand-in for a socket.
#[derive(Default)]
struct Link {
    arrived: RefCell<VecDeque<(Vec<u8>, Option<Origin>)>>,
    sent: RefCell<Vec<(Ipv6Addr, Vec<u8>)>>,
    is_down: Cell<bool>,
}

impl Socket for Rc<Link> {
    fn receive(&self, octets: &mut [u8]) -> io::Result<(usize, Option<Origin>)> {
        let (message, origin) = self.arrived.borrow_mut().pop_front().ok_or(ErrorKind::WouldBlock)?;
        octets[..message.len()].copy_from_slice(&message);
        Ok((message.len(), origin))
    }

    fn send(&self, (from, to): (Ipv6Addr, Ipv6Addr), message: &[u8]) -> io::Result<()> {
        if self.is_down.get() {
            return Err(ErrorKind::AddrNotAvailable.into());
        }
        assert_eq!(from, ROUTER);
        self.sent.borrow_mut().push((to, message.to_vec()));
        Ok(())
    }
}

impl Link {
    fn push(&self, source: Ipv6Addr, ttl: u8, message: &[u8]) {
        let origin = Origin { source: source.into(), destination: NODES.into(), index: 7, ttl };
        self.arrived.borrow_mut().push_back((message.to_vec(), Some(origin)));
    }

    /// Receivers of what was sent since the last call, with the lifetimes that they were told.
    fn told(&self) -> Vec<(Ipv6Addr, u16)> {
        let read = |(to, message): (Ipv6Addr, Vec<u8>)| {
            let ends = (ROUTER.to_bits(), to.to_bits());
            let (header, payload) = icmpv6::Header::parse(&message, ends).expect("a message");
            assert_eq!((header.kind, header.code), (nd::ROUTER_ADVERT, 0));
            (to, RouterAdvert::parse(&header, payload).expect("an advertisement").0.lifetime)
        };
        self.sent.take().into_iter().map(read).collect()
    }
}

fn settings(lifetime: u32) -> Settings {
    let text = format!(
        "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"lan\"\nattach = \"null\"\naddress = \"2001:db8::1/64\"\n\
         [router.nic.ra]\nlifetime = {lifetime}\n"
    );
    let plan = config::parse(&text, "x.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let wanted = plan.routers[0].nics[0].six.advertise.clone().expect("it advertises");
    let (name, mac) = ("lan".to_owned(), Mac([2, 0, 0, 0, 0, 1]));
    Settings { name, index: 7, mac, mtu: 1500, source: ROUTER, wanted }
}

fn begun() -> (Rc<Link>, Interface<Rc<Link>>) {
    let link = Rc::new(Link::default());
    let interface = Interface::new(link.clone(), settings(1800), 0);
    (link, interface)
}

/// Lets an interface send what is due at the time of its deadline; returns that time.
fn next(interface: &mut Interface<Rc<Link>>) -> u64 {
    let due = interface.deadline().expect("it goes on");
    assert!(!interface.turn(due));
    due
}

#[test]
fn it_advertises_itself_as_soon_as_its_address_is_confirmed_and_then_again_and_again() {
    let (link, mut interface) = begun();
    link.is_down.set(true);
    assert_eq!((next(&mut interface), next(&mut interface)), (1000, 2000));
    link.is_down.set(false);
    assert_eq!(next(&mut interface), 3000);
    let times: Vec<u64> = (0..4).map(|_| next(&mut interface)).collect();
    assert!(times[0] <= 19_000 && times[1] - times[0] <= 16_000, "the first ones are quick: {times:?}");
    assert!((200_000..=600_000).contains(&(times[3] - times[2])), "{times:?}");
    assert_eq!(link.told(), [(NODES, 1800); 5]);
    assert_eq!(interface.counts(), [("sent", 5), ("solicitations", 0), ("drop_invalid", 0)]);
}

#[test]
fn what_it_says_is_what_the_file_and_the_interface_say() {
    let (link, mut interface) = begun();
    next(&mut interface);
    let (_, message) = link.sent.take().remove(0);
    let (header, payload) = icmpv6::Header::parse_quoted(&message).expect("a message");
    let (advert, options) = RouterAdvert::parse(&header, payload).expect("an advertisement");
    assert_eq!((advert.hop_limit, advert.lifetime, advert.managed), (64, 1800, false));
    let read: Vec<_> = options.map(|option| option.expect("an option")).collect();
    assert_eq!(read[0].mac(option::SOURCE_MAC), Some(Mac([2, 0, 0, 0, 0, 1])));
    assert_eq!((read[1].kind, &read[1].body[2..]), (option::MTU, &1500_u32.to_be_bytes()[..]));
    let prefix = nd::PrefixInfo::parse(read[2].body).expect("a prefix");
    assert_eq!((Ipv6Addr::from_bits(prefix.prefix), prefix.len), ("2001:db8::".parse().expect("one"), 64));
    assert!(prefix.on_link && prefix.autonomous && read.len() == 3);
    let pseudo = checksum::pseudo6(ROUTER.to_bits(), ipv6::ALL_NODES, message.len() as u32, 58);
    assert_eq!(checksum::sum(pseudo, &message), 0xffff);
}

#[test]
fn a_host_that_asks_is_answered_within_half_a_second() {
    let (link, mut interface) = begun();
    next(&mut interface);
    link.told();
    link.push(HOST, 255, &NAMED);
    for at in [10_000, 10_499] {
        assert!(!interface.turn(at));
    }
    assert_eq!(link.told(), [(HOST, 1800)]);
    // Without its address, or with one of another scope, the answer is for all.
    let global: Ipv6Addr = "2001:db8::9".parse().expect("an address");
    for (source, message, at) in [(Ipv6Addr::UNSPECIFIED, &NAMED[..8], 14_000), (global, &NAMED[..], 15_000)]
    {
        link.push(source, 255, message);
        assert!(!interface.turn(at));
    }
    assert_eq!(link.told(), [(NODES, 1800)]);
    assert_eq!(interface.counts(), [("sent", 3), ("solicitations", 3), ("drop_invalid", 0)]);
}

#[test]
fn what_is_no_valid_solicitation_is_counted_and_not_answered() {
    let (link, mut interface) = begun();
    next(&mut interface);
    link.told();
    let due = interface.deadline();
    let changed = |at: usize, octet| {
        let mut message = NAMED;
        message[at] = octet;
        message
    };
    link.push(HOST, 254, &NAMED);
    link.push(HOST, 255, &NAMED[..7]);
    link.push(HOST, 255, &NAMED[..12]);
    link.push(HOST, 255, &changed(1, 1));
    link.push(HOST, 255, &changed(0, nd::ROUTER_ADVERT));
    link.push(HOST, 255, &changed(9, 0));
    link.push(Ipv6Addr::UNSPECIFIED, 255, &NAMED);
    link.arrived.borrow_mut().push_back((NAMED.to_vec(), None));
    assert!(!interface.turn(1001));
    assert_eq!((interface.deadline(), link.told()), (due, Vec::new()));
    assert_eq!(interface.counts(), [("sent", 1), ("solicitations", 0), ("drop_invalid", 8)]);
}

#[test]
fn a_flood_is_heard_in_parts() {
    let (link, mut interface) = begun();
    (0..65).for_each(|_| link.push(HOST, 255, &NAMED));
    assert!(interface.turn(0));
    assert!(!interface.turn(0));
    assert_eq!(interface.counts()[1], ("solicitations", 65));
}

#[test]
fn other_settings_are_advertised_soon_and_the_same_ones_change_nothing() {
    let (link, mut interface) = begun();
    next(&mut interface);
    link.told();
    let due = interface.deadline();
    interface.set(settings(1800), 2000);
    assert_eq!(interface.deadline(), due);
    interface.set(settings(900), 2000);
    assert_eq!(next(&mut interface), 5000);
    assert_eq!(link.told(), [(NODES, 900)]);
    assert_eq!(interface.counts()[0], ("sent", 2), "the counters go on");
}

#[test]
fn the_last_one_is_for_hosts_that_have_a_default_router_by_it() {
    let (link, mut interface) = begun();
    interface.say_farewell();
    assert_eq!(link.told(), [(NODES, 0)]);
    interface.set(settings(0), 0);
    interface.say_farewell();
    assert!(link.told().is_empty());
    link.is_down.set(true);
    interface.set(settings(1800), 0);
    interface.say_farewell();
    assert!(link.told().is_empty());
}
