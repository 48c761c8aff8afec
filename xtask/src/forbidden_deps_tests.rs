use super::carried;

#[test]
fn what_is_behind_the_wall_is_found_once() {
    let tree = "ringroad v0.1.0 (/src/ring)\nanyhow v1.0.100\nringroad-supervisor v0.1.0 (/src/ring/crates/supervisor)\n";
    assert_eq!(carried(tree), [""; 0]);
    let more = "ringroad-lab v0.1.0 (/src/ring/crates/lab)\nringroad-engine v0.1.0 (/src/ring/crates/engine) (*)\n\
                ringroad-lab v0.1.0 (/src/ring/crates/lab) (*)\n";
    let found = carried(&format!("{tree}{more}"));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("carries ringroad-lab:"), "{found:?}");
}

#[test]
fn the_command_carries_nothing_of_it() {
    assert_eq!(super::faults().expect("cargo tells"), [""; 0]);
}
