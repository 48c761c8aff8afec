use super::Slots;

#[test]
fn slots_are_apart_and_bounded() {
    let slots = Slots::new(3, 100);
    assert_eq!(slots.octets(), 128);
    for i in 0..3 {
        let whole = slots.get(i, 128).unwrap();
        assert_eq!(whole.copy_from_slice(&[i as u8 + 1; 128]), 128);
    }
    for i in 0..3 {
        let mut seen = [0; 128];
        slots.get(i, 128).unwrap().copy_to_slice(&mut seen);
        assert_eq!(seen, [i as u8 + 1; 128]);
        assert_eq!(slots.get(i, 128).unwrap().as_ptr() as usize % 64, 0);
    }
    assert!(slots.get(3, 1).is_none());
    assert!(slots.get(0, 129).is_none());
    assert!(Slots::new(0, 64).get(0, 0).is_none());
}
