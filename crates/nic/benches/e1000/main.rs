//! Compares an e1000's rings with a status block with virtio-net's in-order split rings, alternately, without a virtual
//! machine. `cargo bench -p ringroad-nic --bench e1000 [-- WORD...]` runs the cases whose name contains every word. Not
//! a test: it has no pass criterion. On a busy host only the best windows of the two-core cases are meaningful.

mod models;
mod one_core;
#[path = "../support/mod.rs"]
mod support;
mod two_cores;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let chosen = |name: &str| words.iter().all(|word| name.contains(word.as_str()));
    println!("one core, nanoseconds a frame: virtio-net, e1000, and how much faster that is");
    for size in [256, 1024] {
        for frame in [64, 1514] {
            for (copy, what) in [(false, "shown"), (true, "one copy")] {
                for (promiscuous, filter) in [(true, "promiscuous"), (false, "own address")] {
                    let name = format!("{size} {frame} {what} {filter}");
                    if chosen(&name) {
                        one_core::compare(&name, size, frame, copy, promiscuous);
                    }
                }
            }
        }
    }
    println!("two cores, a guest that forwards 64 octets: Mpps in windows of 1 ms");
    for size in [256, 1024] {
        let name = format!("{size} two cores");
        if chosen(&name) {
            two_cores::compare(&name, size);
        }
    }
}
