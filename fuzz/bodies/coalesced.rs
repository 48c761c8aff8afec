//! Arbitrary content of the page in which KVM coalesces stores, at any time. Finds panics, hangs, reads beyond the page, more
//! counted stores than a page holds, and tails accepted that are not in their ring.
//!
//! The input consists of the number of ring entries (16 bits), the number of NICs, and the number of looks; then 8 octets for each
//! look, the page's two words at that time; the rest is the page's further content.

use super::*;

/// Address of the first NIC's register; those of others follow.
const TDT: u64 = 0xe000_3818;
/// Distance between the registers of two NICs.
const SPACING: u64 = 0x10_0000;
/// Most looks of an input.
const LOOKS: u8 = 32;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&[low, high, nics, looks], rest)) = input.split_first_chunk() else { return };
    let (looks, content) = rest.split_at(rest.len().min(8 * usize::from(looks % LOOKS)));
    let pages = Pages::new();
    let coalesced = Arc::new(CoalescedMmio {
        page: OnceLock::from(Some(pages.page(content))),
        ..CoalescedMmio::default()
    });
    let entries = u16::from_le_bytes([low, high]);
    let nics: Vec<Nic> = (0..u64::from(nics & 3)).map(|n| Nic::new(&coalesced, n, entries)).collect();
    for look in looks.as_chunks::<8>().0 {
        let [a, b, c, d, e, f, g, h] = *look;
        let words = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])];
        let page = coalesced.page().expect("a page");
        page.ends().iter().zip(words).for_each(|(end, word)| end.store(word, Ordering::Release));
        let before = counted(&nics);
        coalesced.drain();
        let collected = counted(&nics) - before;
        let [first, last] = page.ends().map(|end| end.load(Ordering::Acquire));
        assert_eq!(last, words[1], "the kernel's word is the kernel's");
        assert!(first < ENTRIES || first == words[0]);
        assert!(first == last || first >= ENTRIES || last >= ENTRIES, "what was collected takes effect");
        assert!(collected <= u64::from(ENTRIES), "no more than a page holds");
        assert!(nics.iter().all(|nic| nic.tail() == 0 || nic.tail() < entries), "a tail is one of its ring");
        if let Some(nic) = nics.get(usize::from(a & 7)) {
            nic.collector.place(None);
        }
    }
}

fn counted(nics: &[Nic]) -> u64 {
    nics.iter().map(|nic| nic.registers.coalesced_tdt.get()).sum()
}

/// NIC whose stores are coalesced.
struct Nic {
    ends: Arc<HeadTail>,
    registers: Arc<E1000Registers>,
    collector: Collector,
}

impl Nic {
    fn new(coalesced: &Arc<CoalescedMmio>, number: u64, entries: u16) -> Self {
        let (ends, registers) = (Arc::<HeadTail>::default(), Arc::<E1000Registers>::default());
        let collector = Collector::new(coalesced.clone(), registers.clone());
        let tail = Tail { ends: ends.clone(), entries };
        collector.place(Some((TDT + SPACING * number, tail)));
        Self { ends, registers, collector }
    }

    fn tail(&self) -> u16 {
        self.ends.tail()
    }
}

/// A page, followed by a guard page.
struct Pages(*mut u8);

impl Pages {
    fn new() -> Self {
        let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place that the kernel chooses.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, none, flags, -1, 0) };
        assert_ne!(pages, libc::MAP_FAILED);
        // SAFETY: the first of the two pages that were just mapped.
        let done = unsafe { libc::mprotect(pages, PAGE, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(done, 0);
        Self(pages.cast())
    }

    /// Returns the first page, with this content behind its two words; the page is unmapped when dropped.
    fn page(&self, content: &[u8]) -> Page {
        let head = size_of::<kvm_coalesced_mmio_ring>();
        let content = &content[..content.len().min(PAGE - head)];
        // SAFETY: it fits into the page, which is not referenced yet.
        unsafe { self.0.add(head).copy_from_nonoverlapping(content.as_ptr(), content.len()) };
        Page(NonNull::new(self.0.cast()).expect("a mapping"))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the second of the two pages, which is not referenced.
        unsafe { libc::munmap(self.0.add(PAGE).cast(), PAGE) };
    }
}
