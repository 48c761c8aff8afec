use super::*;

/// The layout of the shortest rings: a quarter of a huge page for each direction.
const LAYOUT: Layout = Layout { chunk: 2048, pieces: 1, receive: 256, transmit: 256 };

/// Returns the octets of address space mapped to frame memory.
fn mapped() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("an address");
    let ours = maps.lines().filter(|line| line.contains("/memfd:ringroad-xdp"));
    let spans = ours.filter_map(|line| line.split(' ').next()?.split_once('-'));
    spans.map(|(first, last)| number(last) - number(first)).sum()
}

#[test]
fn memory_that_is_shorter_than_its_layout_is_refused() {
    let short = file(MemfdFlags::empty(), LAYOUT.len() - 4096).expect("memory");
    assert!(Umem::map(&short, LAYOUT).is_err());
}

mod alone {
    use support::HugePages;

    use super::*;

    #[test]
    fn nothing_is_left_of_it_whatever_its_pages() {
        support::needs!(Root);
        for pages in [0, 1] {
            let Some(_pages) = HugePages::set(pages) else {
                println!("SKIPPED: this host does not give {pages} huge pages");
                return;
            };
            let memory = create(LAYOUT).expect("memory");
            assert_eq!(HugePages::free(), 0);
            for _ in 0..3 {
                let umem = Umem::map(&memory, LAYOUT).expect("it is mapped");
                assert!(umem.bytes(LAYOUT.len() - 2048, 2048).expect("the last chunk").write(0, [7u8; 8]));
                assert!(umem.bytes(LAYOUT.len() - 2048, 2049).is_none(), "there is no further one");
                assert_eq!(mapped(), if pages == 0 { LAYOUT.len() } else { HUGE });
            }
            assert_eq!(mapped(), 0);
            drop(memory);
            assert_eq!(HugePages::free(), pages);
        }
    }
}
