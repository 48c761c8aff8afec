//! Durations of the steps in which a machine is made and started: what a slow start spends its time on.

use std::time::{Duration, Instant};

/// Steps that follow one another, by name.
#[derive(Clone, Debug)]
pub struct Steps {
    /// When the present step began.
    began: Instant,
    taken: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// None yet; the first one begins now.
    pub fn begin() -> Self {
        Self { began: Instant::now(), taken: Vec::new() }
    }

    /// The next step begins now: what has passed since the last one belongs to none.
    pub fn resume(&mut self) {
        self.began = Instant::now();
    }

    /// The present step, of this name, ends now, and the next one begins.
    pub fn end(&mut self, step: &'static str) {
        let now = Instant::now();
        self.taken.push((step, now - self.began));
        self.began = now;
    }

    /// Returns the steps that have ended, in their order.
    pub fn taken(&self) -> &[(&'static str, Duration)] {
        &self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_one_another_and_a_pause_belongs_to_none() {
        const PAUSE: Duration = Duration::from_millis(1);
        let begun = Instant::now();
        let mut steps = Steps::begin();
        steps.end("first");
        steps.end("second");
        let paused = Instant::now();
        while paused.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
        steps.resume();
        steps.end("third");
        let names: Vec<&str> = steps.taken().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["first", "second", "third"]);
        let took: Duration = steps.taken().iter().map(|(_, took)| *took).sum();
        assert!(took + PAUSE <= begun.elapsed());
    }
}
