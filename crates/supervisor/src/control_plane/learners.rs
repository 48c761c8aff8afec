//! Receivers of lessons, and how far each has taken them. A router is one learner, or two: the data plane, which sorts its frames out,
//! and the process that its machine runs in, if it has one of its own. The slower one sets the pace.

use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Learners {
    told: u64,
    /// Lessons that all have taken.
    taken_by_all: u64,
    /// By router; without a name: the data plane.
    known: BTreeMap<String, Progress>,
}

/// What a learner has taken.
#[derive(Debug, Default)]
struct Progress {
    taken: u64,
    /// Networks that were not in its tables then.
    late: u64,
}

impl Learners {
    /// A lesson is told to these.
    pub(super) fn tell(&mut self, learners: &[Option<String>]) {
        for learner in learners {
            let new = || Progress { taken: self.told, late: 0 };
            self.known.entry(name(learner.as_deref()).to_owned()).or_insert_with(new);
        }
        self.told += 1;
    }

    /// One of them has taken a lesson; so many networks are not in its tables. Returns how many lessons all have taken by now that
    /// they had not before.
    pub(super) fn has_taken(&mut self, learner: Option<&str>, late: u64) -> u64 {
        if let Some(progress) = self.known.get_mut(name(learner)) {
            // What was told before everything began anew may be answered later.
            *progress = Progress { taken: (progress.taken + 1).min(self.told), late };
        }
        self.advance()
    }

    /// Only these are still there. Returns the same.
    pub(super) fn keep(&mut self, is_there: impl Fn(Option<&str>) -> bool) -> u64 {
        self.known.retain(|learner, _| is_there(Some(learner.as_str()).filter(|name| !name.is_empty())));
        self.advance()
    }

    /// Everything is told anew, to whoever is there then.
    pub(super) fn begin_anew(&mut self) {
        *self = Self::default();
    }

    /// Most networks that are not in the tables of one of them.
    pub(super) fn late(&self) -> u64 {
        self.known.values().map(|progress| progress.late).max().unwrap_or(0)
    }

    fn advance(&mut self) -> u64 {
        let by_all = self.known.values().map(|progress| progress.taken).min().unwrap_or(self.told);
        let news = by_all.saturating_sub(self.taken_by_all);
        self.taken_by_all += news;
        news
    }
}

fn name(learner: Option<&str>) -> &str {
    learner.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> Vec<Option<String>> {
        vec![None, Some("edge".to_owned())]
    }

    #[test]
    fn the_slowest_sets_the_pace() {
        let mut learners = Learners::default();
        (0..3).for_each(|_| learners.tell(&both()));
        assert_eq!([learners.has_taken(None, 0), learners.has_taken(None, 0)], [0, 0]);
        assert_eq!(learners.has_taken(Some("edge"), 7), 1);
        assert_eq!(learners.late(), 7);
        assert_eq!(learners.has_taken(Some("edge"), 0), 1);
        assert_eq!((learners.has_taken(None, 0), learners.late()), (0, 0));
        assert_eq!(learners.has_taken(Some("edge"), 0), 1);
    }

    #[test]
    fn who_is_gone_holds_nobody_up_and_who_comes_is_at_the_present() {
        let mut learners = Learners::default();
        learners.tell(&both());
        assert_eq!(learners.has_taken(None, 0), 0);
        assert_eq!(learners.keep(|learner| learner.is_none()), 1);
        learners.tell(&both());
        assert_eq!(learners.has_taken(None, 0), 0);
        assert_eq!(learners.has_taken(Some("edge"), 0), 1, "it was told the second lesson alone");
        assert_eq!(learners.has_taken(Some("core"), 0), 0, "nobody has told it anything");
    }

    #[test]
    fn answers_of_before_are_no_more_than_what_was_told() {
        let mut learners = Learners::default();
        (0..4).for_each(|_| learners.tell(&[None]));
        learners.begin_anew();
        learners.tell(&[None]);
        assert_eq!([learners.has_taken(None, 0), learners.has_taken(None, 0)], [1, 0]);
    }
}
