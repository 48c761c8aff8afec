use super::*;

const MASK_ALL_AND_ENABLE: u16 = CONTROL_ENABLE | CONTROL_MASK_ALL;
const FIRST: Message = Message { address: 0xfee0_1000, data: 0x31 };

/// Returns four vectors, enabled; vector 1 sends [`FIRST`], the others are masked.
fn one_unmasked() -> Msix {
    let mut msix = Msix::new(4);
    assert!(msix.set_control(CONTROL_ENABLE, true));
    assert_eq!(msix.table_write(16, &FIRST.address.to_le_bytes()), None, "still masked");
    assert_eq!(msix.table_write(24, &u64::from(FIRST.data).to_le_bytes()), Some(1));
    msix
}

fn pending(msix: &Msix) -> u64 {
    let mut data = [0; 8];
    msix.pending_read(0, &mut data);
    u64::from_le_bytes(data)
}

fn table<const N: usize>(msix: &Msix, offset: u64) -> [u8; N] {
    let mut data = [0xee; N];
    msix.table_read(offset, &mut data);
    data
}

#[test]
fn vectors_are_masked_at_power_on() {
    let msix = Msix::new(3);
    for n in 0..3 {
        assert_eq!(table::<16>(&msix, 16 * n), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    }
    assert_eq!(msix.unmasked().count(), 0);
}

#[test]
fn the_capability_tells_size_and_places() {
    let (body, writable) = Msix::new(34).capability(2, 0x2000, 0x3000);
    assert_eq!(body, [33, 0, 2, 0x20, 0, 0, 2, 0x30, 0, 0]);
    assert_eq!(writable, [0, 0xc0]);
}

#[test]
fn two_quadword_writes_set_a_vector_up() {
    let mut msix = one_unmasked();
    assert_eq!(msix.message(1), Some(FIRST));
    assert_eq!(msix.signal(1), Some(FIRST));
    assert_eq!(msix.unmasked().collect::<Vec<_>>(), [1]);
    assert_eq!(table::<8>(&msix, 16), FIRST.address.to_le_bytes());
}

#[test]
fn a_change_is_told_only_when_what_would_be_sent_changes() {
    let mut msix = one_unmasked();
    assert_eq!(msix.table_write(24, &FIRST.data.to_le_bytes()), None, "the same data again");
    assert_eq!(msix.table_write(24, &7_u32.to_le_bytes()), Some(1));
    assert_eq!(msix.table_write(28, &1_u32.to_le_bytes()), Some(1), "masked");
    assert_eq!(msix.table_write(24, &8_u32.to_le_bytes()), None, "nobody sees it while masked");
    assert_eq!(msix.table_write(28, &0_u32.to_le_bytes()), Some(1));
    assert_eq!(msix.message(1), Some(Message { data: 8, ..FIRST }));
}

#[test]
fn a_masked_vector_is_pending_and_sent_once_when_unmasked() {
    for (name, close, open) in [
        ("function mask", (MASK_ALL_AND_ENABLE, true), (CONTROL_ENABLE, true)),
        ("no bus master", (CONTROL_ENABLE, false), (CONTROL_ENABLE, true)),
    ] {
        let mut msix = one_unmasked();
        assert!(msix.set_control(close.0, close.1), "{name}");
        assert!(!msix.set_control(close.0, close.1), "{name}: no change");
        assert_eq!(msix.signal(1), None, "{name}");
        assert_eq!(pending(&msix), 0b10, "{name}");
        assert_eq!(msix.take_pending(1), None, "{name}: still closed");
        assert!(msix.set_control(open.0, open.1), "{name}");
        assert_eq!(msix.take_pending(1), Some(FIRST), "{name}");
        assert_eq!((msix.take_pending(1), pending(&msix)), (None, 0), "{name}");
    }
}

#[test]
fn the_vectors_own_mask_keeps_it_pending_too() {
    let mut msix = one_unmasked();
    msix.table_write(28, &1_u32.to_le_bytes());
    assert_eq!((msix.signal(1), pending(&msix)), (None, 2));
    msix.table_write(28, &0_u32.to_le_bytes());
    assert_eq!(msix.take_pending(1), Some(FIRST));
}

#[test]
fn without_msix_nothing_is_sent_and_nothing_is_remembered() {
    let mut msix = one_unmasked();
    msix.set_control(MASK_ALL_AND_ENABLE, true);
    msix.signal(1);
    msix.set_control(0, true);
    assert_eq!((msix.signal(1), pending(&msix), msix.enabled()), (None, 0, false));
}

#[test]
fn bits_that_do_not_exist_stay_zero() {
    let mut msix = one_unmasked();
    msix.table_write(16, &[0xff; 8]);
    msix.table_write(24, &[0xff; 8]);
    assert_eq!(table::<8>(&msix, 16), (!3_u64).to_le_bytes());
    assert_eq!(table::<8>(&msix, 24), 0x1_ffff_ffff_u64.to_le_bytes());
}

#[test]
fn odd_and_outside_accesses_change_nothing() {
    let mut msix = one_unmasked();
    let before = msix.vectors.clone();
    let octets = [0xa5; 64];
    for (offset, len) in [(16, 0), (16, 1), (18, 2), (18, 4), (20, 8), (28, 8), (16, 16), (16, 64), (17, 3)] {
        assert_eq!(msix.table_write(offset, &octets[..len]), None, "{len} octets at {offset}");
    }
    for offset in [64, 4096, u64::MAX - 7] {
        assert_eq!(msix.table_write(offset, &octets[..8]), None, "at {offset}");
        assert_eq!(table::<8>(&msix, offset), [0; 8], "at {offset}");
    }
    assert_eq!(msix.vectors, before);
    assert_eq!(table::<8>(&msix, 60), [1, 0, 0, 0, 0, 0, 0, 0], "across the end");
    assert_eq!(table::<8>(&msix, 28), [0; 8], "across two entries");
    for vector in [4, 5, u16::MAX] {
        assert_eq!(
            (msix.message(vector), msix.signal(vector), msix.take_pending(vector)),
            (None, None, None)
        );
    }
}

#[test]
fn vectors_are_at_least_1_and_at_most_2048() {
    for (asked, len) in [(0, 1), (1, 1), (2048, 2048), (u16::MAX, 2048)] {
        let mut msix = Msix::new(asked);
        assert_eq!((msix.len(), msix.is_empty()), (len, false));
        msix.set_control(MASK_ALL_AND_ENABLE, true);
        msix.signal(len - 1);
        let mut last = [0];
        msix.pending_read(u64::from(len - 1) / 8, &mut last);
        assert_eq!(last, [1 << ((len - 1) % 8)]);
    }
}
