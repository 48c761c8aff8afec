//! Arbitrary octets as `costs.json`: a document that is not accepted is refused in a line, and one that is accepted can be
//! written, read again, merged, and queried for packet costs. Finds panics, hangs, costs that are not numbers, and documents
//! that are written but would not be read.
//!
//! The first octet determines the activity of a thread; the rest is the document.

use sched::guarantee::{Class, CostKey, CostMemory, Idleness, Kind, Machine, Observation, Path};

/// Frame sizes queried, in octets.
const FRAMES: [f64; 6] = [60.0, 128.0, 700.0, 1514.0, 9216.0, 1e6];

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&how, document)) = input.split_first() else { return };
    let Ok(text) = str::from_utf8(document) else { return };
    let machine = Machine { cpu: "a cpu".into(), kernel: "6.18".into(), ringroad: "0.1.0".into() };
    match CostMemory::read(text, &machine) {
        Ok(memory) => look_at(&memory, how),
        Err(why) => {
            let line = why.to_string();
            assert!(!line.contains(char::is_control) && line.chars().count() < 1000, "{line:?}");
        }
    }
}

/// Uses what was read, as a run does.
fn look_at(memory: &CostMemory, how: u8) {
    let text = memory.json();
    assert!(
        text.len() as u64 <= CostMemory::LONGEST,
        "{} octets are written, and would not be read",
        text.len()
    );
    let again = CostMemory::read(&text, memory.machine()).expect("what we write we read");
    assert_eq!(again.json(), text, "it is rounded once");
    let mut ways: Vec<CostKey> = ways(how).collect();
    ways.push(CostKey { device: "vm, no threads".into(), ..ways[0].clone() });
    let mut other = memory.clone();
    for way in &ways {
        for octets in FRAMES {
            let cost = memory.cost(way, octets).map(|cost| cost.cycles);
            assert!(cost.is_none_or(|cycles| cycles.is_finite() && cycles > 0.0), "{cost:?}");
            let Some(mut model) = memory.model(way, octets) else { continue };
            let of = |model: &sched::guarantee::Model| model.per_frame(octets, 32.0).cycles;
            assert!(of(&model).is_finite() && of(&model) > 0.0, "{}", of(&model));
            model.learn(&window(how));
            assert!(of(&model).is_finite() && of(&model) > 0.0, "{}", of(&model));
        }
        let day = "2026-11-23".parse().expect("a day");
        other.note(way, &window(how), [Idleness::Behind, Idleness::Never][usize::from(how & 1)], day);
    }
    let merged = other.merged(memory, &again);
    assert!(CostMemory::read(&merged.json(), memory.machine()).is_ok(), "what we write we read");
}

/// Returns some of the possible ways.
fn ways(how: u8) -> impl Iterator<Item = CostKey> {
    let all = [Class::Vcpu, Class::Vhost].into_iter().flat_map(|class| {
        [Path::Switch, Path::Tap, Path::Xdp, Path::Kernel].map(|path| Kind {
            class,
            path,
            exits: false,
            far: false,
        })
    });
    all.map(move |kind| CostKey { kind, device: String::new(), cpus: u32::from(how >> 4) })
}

/// Window of observation with typical packet costs.
fn window(how: u8) -> Observation {
    let frames = 10_000 + u64::from(how);
    Observation { cycles: frames * 2000, frames, octets: frames * 60, batches: frames / 50 }
}
