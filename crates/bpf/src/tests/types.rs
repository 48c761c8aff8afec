//! Type information of a synthetic kernel, and of the running one.

use super::*;

/// Builder of type information.
struct Types {
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Types {
    fn new() -> Self {
        Self { types: Vec::new(), strings: vec![0] }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.bytes().chain([0]));
        at
    }

    fn add(&mut self, name: &str, (info, other): (u32, u32), members: &[(&str, u32, u32)], words: usize) {
        let name = self.name(name);
        self.words(&[name, info | members.len() as u32, other]);
        for (name, first, second) in members {
            let name = self.name(name);
            self.words(&[name, *first, *second][..words]);
        }
    }

    fn words(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    fn octets(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let header: Vec<u8> = [24, 0, types, types, strings].into_iter().flat_map(u32::to_ne_bytes).collect();
        [&0xeb9f_u16.to_ne_bytes()[..], &[1, 0], &header[..], &self.types, &self.strings].concat()
    }
}

const fn kind(kind: u32) -> u32 {
    kind << 24
}

/// ```text
///   1 int    2 struct packet { anonymous 3; int mark; possible net; }    3 union { int device; anonymous 4 }
///   4 struct { int a, b }    5 possible = 6    6 struct { const int net }    7 const int    8 enum why { A = 0, B = -2 }
/// ```
fn some() -> Types {
    let mut types = Types::new();
    types.add("int", (kind(1), 4), &[], 3);
    types.words(&[0]);
    types.add("packet", (kind(4), 24), &[("", 3, 64), ("mark", 1, 128), ("net", 5, 160)], 3);
    types.add("", (kind(5), 8), &[("device", 1, 0), ("", 4, 0)], 3);
    types.add("", (kind(4), 8), &[("a", 1, 0), ("b", 1, 32)], 3);
    types.add("possible", (kind(8), 6), &[], 3);
    types.add("", (kind(4) | 1 << 31, 8), &[("bits", 1, 3 << 24), ("net", 7, 32)], 3);
    types.add("", (kind(10), 1), &[], 3);
    types.add("why", (kind(6), 4), &[("A", 0, 0), ("B", -2_i32 as u32, 0)], 2);
    types
}

#[test]
fn members_are_found_through_those_without_a_name() {
    let types = Btf::read(some().octets()).expect("types");
    let cases: [(&[&str], Option<u32>); 9] = [
        (&["device"], Some(8)),
        (&["a"], Some(8)),
        (&["b"], Some(12)),
        (&["mark"], Some(16)),
        (&["net"], Some(20)),
        (&["net", "net"], Some(24)),
        (&["net", "mark"], None),
        (&["c"], None),
        (&["mark", "device"], None),
    ];
    for (path, offset) in cases {
        assert_eq!(types.offset("packet", path), offset, "{path:?}");
    }
    assert_eq!(types.offset("int", &["a"]), None);
    let values = types.values("why").expect("an enumeration");
    assert_eq!(values, [("A".to_owned(), 0), ("B".to_owned(), -2)]);
    assert_eq!(types.values("packet"), None);
}

#[test]
fn damaged_types_are_refused_and_never_read_behind_their_end() {
    let whole = some().octets();
    for len in 0..whole.len() {
        assert!(Btf::read(whole[..len].to_vec()).is_err(), "{len} octets");
    }
    for at in 0..whole.len() {
        for bits in [0x01, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= bits;
            if let Ok(types) = Btf::read(damaged) {
                let _ = (types.offset("packet", &["net", "net"]), types.offset("packet", &["b"]));
                let _ = types.values("why");
            }
        }
    }
}

#[test]
fn a_structure_that_contains_itself_is_given_up() {
    let mut types = Types::new();
    types.add("loop", (kind(4), 8), &[("", 1, 0)], 3);
    types.add("name", (kind(8), 2), &[], 3);
    types.add("other", (kind(4), 8), &[("x", 2, 0)], 3);
    let types = Btf::read(types.octets()).expect("types");
    assert_eq!(types.offset("loop", &["x"]), None);
    assert_eq!(types.offset("other", &["x", "y"]), None);
}

#[test]
fn this_kernel_tells_where_the_device_of_a_packet_stands() {
    let Ok(types) = Btf::of_kernel() else {
        println!("SKIPPED: this kernel does not tell its types (CONFIG_DEBUG_INFO_BTF)");
        return;
    };
    assert!(types.offset("sk_buff", &["dev"]).is_some());
    assert!(types.offset("net_device", &["ifindex"]).is_some());
    assert!(types.offset("net_device", &["nd_net", "net"]).is_some());
    assert!(types.offset("net", &["ns", "inum"]).is_some());
    let reasons = types.values("skb_drop_reason").expect("Linux 5.17");
    assert!(reasons.contains(&("SKB_DROP_REASON_NO_SOCKET".to_owned(), 3)) || reasons.len() > 3);
}
