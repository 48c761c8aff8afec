//! JSON document of the memory.

use serde::{Deserialize, Serialize};

use super::super::model::{Class, Kind, Path};
use super::{
    CostBucket, CostKey, CostMemory, CostPoint, Day, FRAMES, LEAST_CYCLES, LONGEST, MOST, MOST_CYCLES,
    Machine, PASSES,
};

/// Format version, the only one written and read.
const VERSION: u32 = 2;
/// Most characters of a reason that are reported.
const TOLD: usize = 160;

/// Reason why a document is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Malformed: where, and what is wrong.
    #[error("it is broken: {0}")]
    Broken(String),
    /// Unknown version.
    #[error("its version is {0}, and only {VERSION} is known")]
    Version(u32),
    /// It holds for another machine.
    #[error("it is true for another machine: {}, kernel {}, ringroad {}", .0.cpu, .0.kernel, .0.ringroad)]
    Elsewhere(Machine),
}

impl Unusable {
    fn broken(why: impl ToString) -> Self {
        Self::Broken(plain(&why.to_string()))
    }
}

/// Text that fits into a line of a report.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TOLD).collect()
}

/// Rounds to hundredths, which read back as the same number.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Part that all versions have.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    machine: Machine,
    costs: Vec<Row>,
}

/// Point. All values are per packet.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    class: Class,
    path: Path,
    exits: bool,
    far: bool,
    device: String,
    cpus: u32,
    /// Most octets per frame, and least packets per pass.
    frames_to: u32,
    passes_from: u32,
    /// True if the thread was saturated.
    behind: bool,
    cycles: f64,
    octets: f64,
    packets_of_a_pass: f64,
    packets: u64,
    day: Day,
}

impl Row {
    /// Returns true if this program can have written it.
    fn is_sound(&self) -> bool {
        let device = !self.device.chars().any(char::is_control) && self.device.len() <= LONGEST;
        let sort = FRAMES.contains(&self.frames_to) && PASSES.contains(&self.passes_from);
        let numbers = (LEAST_CYCLES..=MOST_CYCLES).contains(&self.cycles)
            && (0.0..=f64::from(self.frames_to)).contains(&self.octets)
            && (f64::from(self.passes_from)..=1e6).contains(&self.packets_of_a_pass);
        device && sort && numbers && self.packets > 0
    }
}

impl CostMemory {
    /// Octets of the longest document that is read.
    pub const LONGEST: u64 = 512 * 1024;

    /// Parses the output of [`CostMemory::json`].
    ///
    /// # Errors
    /// Why it must not be used on this machine.
    pub fn read(text: &str, machine: &Machine) -> Result<Self, Unusable> {
        let head: Head = serde_json::from_str(text).map_err(Unusable::broken)?;
        if head.version != VERSION {
            return Err(Unusable::Version(head.version));
        }
        let document: Document = serde_json::from_str(text).map_err(Unusable::broken)?;
        if document.machine != *machine {
            let Machine { cpu, kernel, ringroad } = &document.machine;
            let [cpu, kernel, ringroad] = [cpu, kernel, ringroad].map(|text| plain(text));
            return Err(Unusable::Elsewhere(Machine { cpu, kernel, ringroad }));
        }
        if document.costs.len() > MOST {
            return Err(Unusable::broken("more costs than are ever written"));
        }
        let mut memory = Self::new(document.machine);
        for (n, row) in document.costs.into_iter().enumerate() {
            if !row.is_sound() {
                return Err(Unusable::broken(format!("number {n} of its costs cannot have been seen")));
            }
            let kind = Kind { class: row.class, path: row.path, exits: row.exits, far: row.far };
            let way = CostKey { kind, device: row.device, cpus: row.cpus };
            let seen = CostPoint {
                cycles: row.cycles,
                octets: row.octets,
                batch: row.packets_of_a_pass,
                frames: row.packets,
                day: row.day,
            };
            let sort =
                CostBucket { frames_to: row.frames_to, passes_from: row.passes_from, behind: row.behind };
            memory.costs.insert((way, sort), seen);
        }
        Ok(memory)
    }

    /// Serializes the memory.
    pub fn json(&self) -> String {
        let rows = self.costs.iter().map(|((way, sort), seen)| Row {
            class: way.kind.class,
            path: way.kind.path,
            exits: way.kind.exits,
            far: way.kind.far,
            device: way.device.clone(),
            cpus: way.cpus,
            frames_to: sort.frames_to,
            passes_from: sort.passes_from,
            behind: sort.behind,
            cycles: rounded(seen.cycles),
            octets: rounded(seen.octets),
            packets_of_a_pass: rounded(seen.batch),
            packets: seen.frames,
            day: seen.day,
        });
        let document = Document { version: VERSION, machine: self.machine.clone(), costs: rows.collect() };
        // Serialization of these types cannot fail.
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }
}
