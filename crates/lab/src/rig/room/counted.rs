//! What the router counts while it runs: the lines of `ringroad run --json`, added up.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// What its vCPUs forwarded, how often they rang for it, and how often they left the guest for the VMM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(super) forwarded: u64,
    pub(super) kicks: u64,
    pub(super) exits: u64,
}

/// Counts that a thread adds to.
#[derive(Default)]
pub(super) struct Counted {
    counts: Mutex<Counts>,
    news: Condvar,
}

impl Counted {
    /// Reads lines in a thread of their own, for as long as there are any.
    pub(super) fn by(lines: impl Read + Send + 'static) -> Arc<Self> {
        let counted = Arc::<Self>::default();
        let adds = counted.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                adds.counts.lock().unwrap_or_else(PoisonError::into_inner).add(&line);
                adds.news.notify_all();
            }
        });
        counted
    }

    /// All counts up to the last line.
    pub(super) fn so_far(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kicks and exits for each frame that was forwarded since, as far as lines tell; the first that does is waited for, as there
    /// is one each second.
    ///
    /// # Errors
    /// None does.
    pub(super) fn each_since(&self, before: &Counts, patience: Duration) -> Result<[f64; 2]> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + patience;
        loop {
            if let Some(each) = counts.each_since(before) {
                return Ok(each);
            }
            let left = end.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "the router does not tell what it counts");
            counts = self.news.wait_timeout(counts, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Counts {
    fn add(&mut self, line: &str) {
        let Ok(said) = serde_json::from_str::<serde_json::Value>(line) else { return };
        let counters = said.get("counters").and_then(serde_json::Value::as_object);
        for (name, value) in counters.into_iter().flatten() {
            let Some(sum) = self.of(name) else { continue };
            *sum += value.as_u64().unwrap_or(0);
        }
    }

    /// What a counter adds to: `ROUTER.vcpuN.forwarded`, `ROUTER.vcpuN.NIC.kicks`, `ROUTER.vcpuN.exit.REASON`.
    fn of(&mut self, name: &str) -> Option<&mut u64> {
        let parts: Vec<&str> = name.split('.').collect();
        let [_, vcpu, rest @ ..] = parts.as_slice() else { return None };
        match rest {
            _ if !vcpu.starts_with("vcpu") => None,
            ["forwarded"] => Some(&mut self.forwarded),
            [_, "kicks"] => Some(&mut self.kicks),
            ["exit", _] => Some(&mut self.exits),
            _ => None,
        }
    }

    /// What was counted since, for each frame that was forwarded: kicks, and exits.
    fn each_since(&self, before: &Self) -> Option<[f64; 2]> {
        let frames = self.forwarded.checked_sub(before.forwarded).filter(|frames| *frames > 0)?;
        let each = |now: u64, then: u64| now.saturating_sub(then) as f64 / frames as f64;
        Some([each(self.kicks, before.kicks), each(self.exits, before.exits)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_up_by_what_they_count() {
        let line = |forwarded: u64| {
            format!(
                r#"{{"counters":{{"r.vcpu0.forwarded":{forwarded},"r.vcpu0.near.kicks":3,"r.vcpu1.far.kicks":4,
                "r.vcpu0.exit.register_write":2,"r.near.tx.kicks":99,"r.vcpu0.near.rx_frames":99}}}}"#
            )
            .replace('\n', "")
        };
        let mut before = Counts::default();
        before.add(&line(5));
        assert_eq!(before, Counts { forwarded: 5, kicks: 7, exits: 2 });
        let mut after = before;
        after.add(&line(10));
        after.add("no line of ours");
        assert_eq!(after.each_since(&before), Some([0.7, 0.2]));
        assert_eq!(after.each_since(&after), None, "nothing was forwarded");
    }

    #[test]
    fn a_line_that_tells_is_waited_for() {
        let counted = Counted::by(&b""[..]);
        assert_eq!(counted.so_far(), Counts::default());
        assert!(counted.each_since(&Counts::default(), Duration::from_millis(10)).is_err());
        let line = r#"{"counters":{"r.vcpu0.forwarded":2,"r.vcpu0.near.kicks":1}}"#;
        let counted = Counted::by(line.as_bytes());
        let each = counted.each_since(&Counts::default(), Duration::from_secs(20)).expect("a line");
        assert_eq!(each, [0.5, 0.0]);
    }
}
