use super::*;
use crate::experiment::Options;

#[test]
fn each_router_has_a_name_interfaces_and_lines_of_its_own() {
    let routers = [String::new(), "pin = { vcpu = \"1\" }\n".to_owned()];
    let options = Options { vcpus: 2, queues: 2, ..Options::default() };
    let file = File { queue_len: Some("35"), ..File::new(&options, Link::Macvtap, &routers) };
    let text = text(&file, "l7");
    for part in ["\"l7a\"", "\"l7b\"", "macvtap:near0", "macvtap:near-1-0", "macvtap:far-1-0", "vcpus = 2"] {
        assert_eq!(text.matches(part).count(), if part == "vcpus = 2" { 2 } else { 1 }, "{part}: {text}");
    }
    assert_eq!(text.matches("queue_len = 35").count(), 4);
    let first = text.find("l7b").unwrap();
    assert_eq!(text.find("pin =").map(|at| at > first), Some(true), "{text}");
    let macs: std::collections::BTreeSet<&str> =
        text.lines().filter(|line| line.starts_with("mac = ") && !line.contains(":09:09")).collect();
    assert_eq!(macs.len(), 4, "{text}");
    let tables: toml::Table = toml::from_str(&text).unwrap();
    assert_eq!(tables["router"].as_array().map(Vec::len), Some(2));
}
