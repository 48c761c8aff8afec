//! What can be set while a router runs: one table of the keys, and what each makes of a plan.
//!
//! A plan with another setting is judged as one that a file says: what a file may not say, nobody can set.

use crate::error::Errors;
use crate::plan::{Guarantee, Plan, Router};
use crate::values::{self, BadValue};
use crate::{affinity, rate, verify};

/// Which setting it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A promised rate; the size of its frames stays.
    Guarantee,
    /// A promised rate by its key in the table.
    GuaranteeRate,
    /// The size of the frames of a promised rate.
    GuaranteeFrame,
    /// What it may forward at most.
    Limit,
    /// Where the vCPU threads are.
    PinVcpu,
    /// Where the vhost threads are.
    PinVhost,
    /// In which CPUs the kernel places the vCPU threads.
    AffinityVcpu,
    /// In which CPUs the kernel places the vhost threads.
    AffinityVhost,
    /// How the kernel schedules its threads, as a whole table, or one key of it.
    Sched,
    /// How long its threads poll without work.
    Spin,
    /// What happens when it stops by itself.
    Restart,
    /// Whether it runs; no file says that.
    State,
    /// Whether the cable of a NIC is plugged in; no file says that.
    Link,
}

/// A setting as it is explained to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Which one it is.
    pub key: Key,
    /// Its name, in which `KEY`, `CLASS` and `NIC` stand for several words.
    pub name: &'static str,
    /// What it takes.
    pub value: &'static str,
    /// What it does.
    pub does: &'static str,
    /// Which packets a change loses; none: no packet.
    pub loses: Option<&'static str>,
}

impl Setting {
    /// All of them: who looks one up by its name finds it here, and so does the help.
    pub const ALL: [Self; 16] = [
        Self::new(
            Key::Guarantee,
            "guarantee",
            "400kpps, none",
            "promise a rate; the size of its frames stays",
        ),
        Self::new(
            Key::GuaranteeRate,
            "guarantee.rate",
            "400kpps",
            "promise a rate; the size of its frames stays",
        ),
        Self::new(
            Key::GuaranteeFrame,
            "guarantee.frame",
            "60 to 9014",
            "promise it for frames of so many octets",
        ),
        Self::new(Key::Limit, "limit", "200kpps, none", "let in at most so many packets a second"),
        Self::new(Key::PinVcpu, "pin.vcpu", "1, 0-1,3, any", "deal the vCPU threads out to these CPUs"),
        Self::new(Key::PinVhost, "pin.vhost", "1, 0-1,3, any", "deal the vhost threads out to these CPUs"),
        Self::new(
            Key::AffinityVcpu,
            "affinity.vcpu",
            "0-1,3, free, auto",
            "let the kernel place the vCPU threads in these CPUs",
        ),
        Self::new(
            Key::AffinityVhost,
            "affinity.vhost",
            "0-1,3, free, auto",
            "let the kernel place the vhost threads in these CPUs",
        ),
        Self::new(Key::Sched, "sched", "a table, as in a file", "schedule its threads by this policy"),
        Self::new(
            Key::Sched,
            "sched.KEY",
            "as in a file",
            "change policy, priority, runtime, deadline, period, reclaim, weight or quota",
        ),
        Self::new(
            Key::Sched,
            "sched.CLASS",
            "a table, as in a file",
            "the same for the threads of one class: vcpu or vhost",
        ),
        Self::new(Key::Sched, "sched.CLASS.KEY", "as in a file", "change one key for one class"),
        Self::new(
            Key::Spin,
            "spin",
            "50us, always",
            "poll for so long before sleeping: its vhost threads at once, its firmware when it is started anew",
        ),
        Self::new(
            Key::Restart,
            "restart",
            "always, never",
            "start it again when it stops by itself, or do not",
        ),
        Self {
            loses: Some("what arrives while it is stopped"),
            ..Self::new(Key::State, "state", "running, stopped", "start or stop it")
        },
        Self {
            loses: Some("what arrives while it is down"),
            ..Self::new(
                Key::Link,
                "NIC.link",
                "up, down",
                "plug the cable of a NIC in, or pull it out, until the router is started anew",
            )
        },
    ];

    const fn new(key: Key, name: &'static str, value: &'static str, does: &'static str) -> Self {
        Self { key, name, value, does, loses: None }
    }

    /// The setting of this name, such as `limit`, `sched.vhost.priority` or `wan.link`.
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|setting| setting.is_called(name))
    }

    fn is_called(&self, name: &str) -> bool {
        let is_nic = |word: &str| values::name(word).is_ok();
        let is_key = |word: &str| crate::sched::KEYS.contains(&word);
        let is_class = |word: &str| ["vcpu", "vhost"].contains(&word);
        let words: Vec<&str> = name.split('.').collect();
        match (self.name, words.as_slice()) {
            ("NIC.link", [nic, "link"]) => is_nic(nic),
            ("sched.KEY", ["sched", key]) => is_key(key),
            ("sched.CLASS", ["sched", class]) => is_class(class),
            ("sched.CLASS.KEY", ["sched", class, key]) => is_class(class) && is_key(key),
            (own, _) => own == name,
        }
    }

    /// What is said of a name that nothing has.
    fn unknown(name: &str) -> BadValue {
        let names: Vec<&str> = Self::ALL.iter().map(|setting| setting.name).collect();
        BadValue(format!("{name:?} cannot be set while a router runs; keys: {}", names.join(", ")))
    }
}

impl Plan {
    /// The plan with one setting of a router changed, if a file could say so.
    ///
    /// # Errors
    /// There is no such router or setting, the value is not what it takes, or the plan as a whole must not be so: one line that
    /// names router and key, in the words that are said of a file.
    pub fn with(&self, router: &str, key: &str, value: &str) -> Result<Self, BadValue> {
        let mut plan = self.clone();
        let found = plan.routers.iter_mut().find(|known| known.name == router).ok_or_else(|| {
            let names: Vec<&str> = self.routers.iter().map(|router| router.name.as_str()).collect();
            BadValue(format!("there is no router {router:?}; routers: {}", names.join(", ")))
        })?;
        found.set(key, value)?;
        let faults = verify::verify(&plan);
        if faults.is_empty() { Ok(plan) } else { Err(plan.errors(faults).of_setting(router, key)) }
    }
}

impl Errors {
    /// What is wrong where somebody has set this key of a router: one line, by names instead of lines of a file.
    pub fn of_setting(&self, router: &str, key: &str) -> BadValue {
        let line = |error: &crate::Error| {
            let own = error.key.strip_prefix("router.").unwrap_or(&error.key);
            let about = error.router.as_deref().unwrap_or(router);
            let place = match about == router {
                true if is_below(key, own) => String::new(),
                true => format!("{own}: "),
                false => format!("router {about}: {own}: "),
            };
            format!("{place}{}", error.what)
        };
        let lines: Vec<String> = self.errors.iter().map(line).collect();
        BadValue(format!("router {router}: {key}: {}", lines.join("; ")))
    }
}

/// Whether a key is another one, or one of its table's.
fn is_below(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Router {
    /// Changes one setting. Whether the plan may be so as a whole is for [`Plan::with`] to say.
    ///
    /// # Errors
    /// There is no such setting, or the value is not what it takes: one line that names router and key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<&'static Setting, BadValue> {
        let setting = Setting::find(key).ok_or_else(|| Setting::unknown(key))?;
        let done = self.change(setting.key, key, value);
        done.map_err(|what| BadValue(format!("router {}: {key}: {}", self.name, without(key, &what))))?;
        Ok(setting)
    }

    fn change(&mut self, of: Key, key: &str, value: &str) -> Result<(), String> {
        match of {
            Key::Guarantee if value.starts_with('{') => self.guarantee = Some(rate::guarantee_of(value)?),
            Key::Guarantee => {
                let rate = optional(value, "none", rate::rate)?;
                self.guarantee =
                    rate.map(|rate| Guarantee { rate, ..self.guarantee.unwrap_or(Guarantee::of(rate)) });
            }
            Key::GuaranteeRate => {
                let rate = rate::rate(value)?;
                self.guarantee = Some(Guarantee { rate, ..self.guarantee.unwrap_or(Guarantee::of(rate)) });
            }
            Key::GuaranteeFrame => self.guarantee = Some(of_frames(self.guarantee, value)?),
            Key::Limit => self.limit = optional(value, "none", rate::rate)?,
            Key::PinVcpu => self.pin.vcpu = optional(value, "any", affinity::cpus)?,
            Key::PinVhost => self.pin.vhost = optional(value, "any", affinity::cpus)?,
            Key::AffinityVcpu => {
                self.affinity.vcpu = optional(value, "auto", affinity::allowed)?.unwrap_or_default();
            }
            Key::AffinityVhost => {
                self.affinity.vhost = optional(value, "auto", affinity::allowed)?.unwrap_or_default();
            }
            Key::Sched => {
                let part = key.strip_prefix("sched").map_or("", |rest| rest.trim_start_matches('.'));
                self.sched = self.sched.with(part, value).map_err(|BadValue(what)| what)?;
            }
            Key::Spin => self.spin = values::spin(value)?,
            Key::Restart => self.restart = crate::read::RESTARTS.find(value)?,
            Key::State => drop(is_running(value).map_err(|BadValue(what)| what)?),
            Key::Link => {
                self.nic_of(key).and_then(|_| is_link_up(value)).map_err(|BadValue(what)| what)?;
            }
        }
        Ok(())
    }

    /// The number of the NIC that a key such as `wan.link` is about.
    ///
    /// # Errors
    /// There is none; the line names those that there are.
    pub fn nic_of(&self, key: &str) -> Result<usize, BadValue> {
        let nic = key.split('.').next().unwrap_or(key);
        self.nics.iter().position(|known| known.name == nic).ok_or_else(|| {
            let names: Vec<&str> = self.nics.iter().map(|nic| nic.name.as_str()).collect();
            BadValue(format!("there is no NIC {nic:?}; NICs: {}", names.join(", ")))
        })
    }
}

/// What is wrong, without the key where that is named: it was read as a value of a table.
fn without<'w>(key: &str, what: &'w str) -> &'w str {
    let last = key.rsplit('.').next().unwrap_or(key);
    let is_same =
        |place: &str| place == key || place.strip_suffix(last).is_some_and(|table| table.ends_with('.'));
    what.split_once(": ").filter(|(place, _)| is_same(place)).map_or(what, |(_, what)| what)
}

/// A value that a file says, or the word for none.
fn optional<T>(value: &str, none: &str, read: fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if value == none {
        return Ok(None);
    }
    read(value).map(Some).map_err(|what| format!("{what}, or {none}"))
}

/// A promise for frames of another size.
fn of_frames(promised: Option<Guarantee>, value: &str) -> Result<Guarantee, String> {
    let promised = promised.ok_or("nothing is promised yet; set guarantee=RATE first")?;
    let frame = if value.parse::<i64>().is_ok() { value.to_owned() } else { format!("{value:?}") };
    rate::guarantee_of(&format!("{{ rate = \"{}\", frame = {frame} }}", promised.rate))
}

/// Whether the link of a NIC is to be up.
///
/// # Errors
/// The word is none for that.
pub fn is_link_up(value: &str) -> Result<bool, BadValue> {
    match value {
        "up" => Ok(true),
        "down" => Ok(false),
        _ => Err(BadValue(format!("{value:?} is no state of a link; write up or down"))),
    }
}

/// Whether a router is to run.
///
/// # Errors
/// The word is none for that.
pub fn is_running(value: &str) -> Result<bool, BadValue> {
    match value {
        "running" => Ok(true),
        "stopped" => Ok(false),
        _ => Err(BadValue(format!("{value:?} is no state; write running or stopped"))),
    }
}
