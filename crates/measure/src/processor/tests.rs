use super::*;

#[test]
fn the_processor_is_named_with_its_family() {
    let text = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n";
    assert_eq!(name(text), "AMD EPYC (family 26 model 17)");
    assert_eq!(field(text, "no such key"), None);
    assert_eq!(name(""), "unknown (family unknown model unknown)");
}
