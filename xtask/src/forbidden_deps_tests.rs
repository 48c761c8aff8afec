use super::{FORBIDDEN, carried};

#[test]
fn what_is_behind_a_wall_is_found_once() {
    let [(package, forbidden), ..] = FORBIDDEN;
    let tree = "ringroad v0.1.0 (/src/ring)\nanyhow v1.0.100\nringroad-supervisor v0.1.0 (/src/ring/crates/supervisor)\n";
    assert_eq!(carried(package, forbidden, tree), [""; 0]);
    let more = "ringroad-lab v0.1.0 (/src/ring/crates/lab)\nringroad-engine v0.1.0 (/src/ring/crates/engine) (*)\n\
                ringroad-lab v0.1.0 (/src/ring/crates/lab) (*)\n";
    let found = carried(package, forbidden, &format!("{tree}{more}"));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("carries ringroad-lab:"), "{found:?}");
}

#[test]
fn no_package_carries_what_it_must_not() {
    assert_eq!(super::faults().expect("cargo tells"), [""; 0]);
}
