use netlink_packet_core::Emitable;

use super::*;

/// Octets of a message about interface 7 with these attributes, as the kernel writes it.
fn told(attributes: &Attributes) -> Vec<u8> {
    let header = [[0; 4], 7_u32.to_ne_bytes(), 0x8001_0000_u32.to_ne_bytes(), [0xff; 4], 2_u32.to_ne_bytes()];
    [header.concat().as_slice(), attributes.octets()].concat()
}

/// Statistics (`TCA_STATS2`) with this number of drops in those of the queue (`struct gnet_stats_queue`).
fn with_drops(attributes: Attributes, drops: u32) -> Attributes {
    let basic = Attributes::default().with(1, &[0; 16]);
    let queue = [3, 180, drops, 0, 0].map(u32::to_ne_bytes).concat();
    attributes.nest(7, &basic.with(3, &queue))
}

#[test]
fn a_discipline_is_its_kind_its_limit_and_its_drops() {
    for (kind, name) in [(QueueKind::Pfifo, "pfifo"), (QueueKind::Bfifo, "bfifo")] {
        let attributes = Attributes::default().text(1, name).number(OPTIONS, 1000);
        let queue = Some(Queue { kind, limit: 1000 });
        assert_eq!(read(&told(&with_drops(attributes, 9))), Some(QueueState { queue, drops: 9 }));
    }
    let options = Attributes::default().number(1, 4999).number(FQ_CODEL_LIMIT, 10_240).number(3, 99_999);
    let attributes = Attributes::default().text(1, "fq_codel").nest(OPTIONS, &options);
    let queue = Some(Queue { kind: QueueKind::FqCodel, limit: 10_240 });
    assert_eq!(read(&told(&attributes)), Some(QueueState { queue, drops: 0 }));
    let other = Attributes::default().text(1, "htb").nest(OPTIONS, &Attributes::default().number(2, 1));
    assert_eq!(read(&told(&with_drops(other, 5))), Some(QueueState { queue: None, drops: 5 }));
}

#[test]
fn what_is_set_is_what_is_read() {
    for kind in QueueKind::ALL {
        let queue = Queue { kind, limit: 77 };
        let mut message = root(7);
        message.attributes.push(TcAttribute::Kind(kind.name().to_owned()));
        message.attributes.push(TcAttribute::Other(DefaultNla::new(OPTIONS, options(queue))));
        let mut octets = vec![0; message.buffer_len()];
        message.emit(&mut octets);
        assert_eq!(octets[12..16], [0xff; 4], "the root");
        assert_eq!(octets[4..8], 7_u32.to_ne_bytes());
        assert_eq!(read(&octets), Some(QueueState { queue: Some(queue), drops: 0 }));
        assert_eq!(QueueKind::named(kind.name()), Some(kind));
    }
    assert_eq!(QueueKind::named("noqueue"), None);
}

#[test]
fn a_limit_has_its_unit() {
    let told = |kind| Queue { kind, limit: 1500 }.to_string();
    assert_eq!(told(QueueKind::Bfifo), "bfifo of 1500 octets");
    assert_eq!(told(QueueKind::FqCodel), "fq_codel of 1500 frames");
}

#[test]
fn what_is_cut_off_is_no_discipline() {
    let whole = told(&with_drops(Attributes::default().text(1, "pfifo").number(OPTIONS, 1000), 9));
    for len in 0..whole.len() {
        let queue = read(&whole[..len]).and_then(|state| state.queue);
        assert!(queue.is_none_or(|queue| queue.limit == 1000), "{len}");
        assert_eq!(read(&whole[..len]).is_some(), len >= HEADER, "{len}");
    }
}
