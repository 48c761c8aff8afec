//! Arbitrary descriptors: the output equals the model's, in bursts of any size.

use proptest::collection::vec;
use proptest::prelude::*;

use super::model::{Given, Outcome, outcome, push};
use super::*;

fn any_octets() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![2 => 0..70_usize, 2 => 0..700_usize, 1 => 1400..1700_usize, 1 => 4000..5000_usize];
    (len, any::<u8>(), prop_oneof![Just([8, 0]), Just([0, 46]), Just([0x86, 0xdd])]).prop_map(
        |(len, seed, kind)| {
            let mut octets = octets(seed.into(), len);
            if len >= 14 {
                octets[12..14].copy_from_slice(&kind);
            }
            octets
        },
    )
}

fn any_command() -> impl Strategy<Value = u8> {
    let eop = prop_oneof![2 => Just(tx::EOP), 1 => Just(0)];
    (eop, 0..128_u8).prop_map(|(eop, rest)| eop | (rest << 1 & !tx::DEXT))
}

/// Offsets that are plausible more often than not.
fn any_context() -> impl Strategy<Value = Given> {
    let ip = (
        prop_oneof![4 => Just(14), 1 => any::<u8>()],
        prop_oneof![4 => Just(24), 1 => any::<u8>()],
        0..60_u16,
    );
    let tcp = (
        prop_oneof![4 => Just(34), 1 => any::<u8>()],
        prop_oneof![4 => Just(50), 1 => any::<u8>()],
        0..2_u16,
    );
    let cut = (
        prop_oneof![4 => 54..80_u8, 1 => any::<u8>()],
        prop_oneof![1 => 1..20_u16, 4 => 100..1460_u16, 1 => any::<u16>()],
        prop_oneof![4 => 0..6000_u32, 1 => 0..0x10_0000_u32],
    );
    (ip, tcp, cut, any::<u8>()).prop_map(|(ip, tcp, (header, mss, payload), command)| {
        Given::Context(Context {
            ip_start: ip.0,
            ip_offset: ip.1,
            ip_end: ip.2,
            tcp_start: tcp.0,
            tcp_offset: tcp.1,
            tcp_end: tcp.2 * 77,
            payload,
            command: command | tx::DEXT,
            status: 0,
            header,
            mss,
        })
    })
}

fn any_given() -> impl Strategy<Value = Given> {
    let legacy = (any_octets(), any_command(), any::<u8>(), any::<u8>(), any::<u16>()).prop_map(
        |(octets, command, cso, css, special)| Given::Legacy { octets, command, cso, css, special },
    );
    let data = (any_octets(), any_command(), any::<u8>(), any::<u16>())
        .prop_map(|(octets, command, options, special)| Given::Data { octets, command, options, special });
    prop_oneof![2 => legacy, 5 => data, 2 => any_context()]
}

fn any_settings() -> impl Strategy<Value = TxSettings> {
    (any::<bool>(), any::<bool>(), prop_oneof![Just(1514_usize), Just(9014), Just(54 + 14)])
        .prop_map(|(pad_short, vlan, longest)| TxSettings { pad_short, vlan, longest, ..SETTINGS })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_comes_out_is_what_the_manual_says(
        list in vec(any_given(), 1..40),
        settings in any_settings(),
        budgets in vec(1..65_usize, 1..8),
        block in any::<bool>(),
    ) {
        // Ends the last packet.
        let end = Given::Legacy { octets: Vec::new(), command: tx::EOP, cso: 0, css: 0, special: 0 };
        let list = [list, vec![end]].concat();
        let mut guest = Guest::build(64, settings, block, LEN);
        list.iter().for_each(|given| push(&mut guest, given));
        guest.publish();
        let (mut frames, mut counted, mut budgets) = (Vec::new(), 0, budgets.into_iter().cycle());
        while guest.queue.has_frames() {
            let (shown, drained) = guest.drain(budgets.next().unwrap());
            frames.extend(shown);
            counted += drained.frames as u64;
        }
        let expected = outcome(&list, &settings);
        let ledger = &guest.ledger;
        let drops = (ledger.drop_too_short.get(), ledger.drop_too_long.get(), ledger.drop_bad_offload.get());
        let segmented = [0x40f8, 0x40fc].map(|register| u64::from(guest.registers.read(register).unwrap()));
        let all = frames.len() as u64;
        let got = Outcome { frames, drops, segmented: segmented.into() };
        for (i, (got, expected)) in got.frames.iter().zip(&expected.frames).enumerate() {
            prop_assert_eq!(got, expected, "frame {}", i);
        }
        prop_assert_eq!(&got, &expected);
        prop_assert_eq!(counted, all + drops.0 + drops.1 + drops.2);
        prop_assert_eq!(guest.ends.head(), list.len() as u16);
        for (i, given) in list.iter().enumerate() {
            prop_assert_eq!(guest.is_done(i as u16), given.command() & tx::RS != 0);
        }
    }
}
