//! A setting that a client changes.

use config::{Power, Setting};

/// Setting that a client changes.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) router: String,
    pub(crate) key: String,
    pub(crate) value: String,
    /// Reply to send instead of the list of changes.
    pub(crate) answer: Option<String>,
}

impl Edit {
    /// Edit that starts or stops a router.
    pub(super) fn state(router: String, state: Power, answer: String) -> Self {
        Self { router, key: "state".to_owned(), value: state.name().to_owned(), answer: Some(answer) }
    }

    /// Whether it is about the number of routers or balancers of a group.
    pub(super) fn moves_routers(&self) -> bool {
        Setting::find(&self.key).is_some_and(|setting| setting.key.is_of_group())
    }

    /// Describes the changes made, with what they lose, in one line.
    pub(super) fn told(self, changes: &[api::Change]) -> String {
        let Self { router, key, value, answer } = self;
        if let Some(answer) = answer {
            return answer;
        }
        let told = |change: &api::Change| match &change.why {
            Some(why) => format!("{}; {why}", change.what),
            None => change.what.clone(),
        };
        let told: Vec<String> = changes.iter().map(told).collect();
        let what =
            if told.is_empty() { format!("router {router}: {key} = {value}") } else { told.join("; ") };
        match Setting::find(&key) {
            // Of a group, each change says what it loses.
            Some(setting) if setting.loses.is_none() && !setting.key.is_of_group() => {
                format!("{what} (no packet is lost)")
            }
            _ => what,
        }
    }
}
