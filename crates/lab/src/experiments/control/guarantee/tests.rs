use super::*;

#[test]
fn settling_ends_with_the_last_look_below_the_promise() {
    assert_eq!(settled_after(&[1.0, 0.99, 1.0]), 0);
    assert_eq!(settled_after(&[0.2, 0.9, 0.96, 1.0]), 2);
    assert_eq!(settled_after(&[1.0, 1.0, 0.5]), 3);
}
