use super::*;
use crate::step::root;

#[test]
fn the_page_about_security_says_what_each_attack_does() {
    let page = std::fs::read_to_string(root().join("SECURITY.md")).expect("the page");
    for spec in &ALL {
        let told = format!("`{}`: {}", spec.name, spec.does);
        assert!(page.contains(&told), "SECURITY.md does not say {told}");
    }
}

#[test]
fn no_two_attacks_have_the_same_name() {
    let names: std::collections::BTreeSet<_> = ALL.iter().map(|spec| spec.name).collect();
    assert_eq!(names.len(), ALL.len());
}
