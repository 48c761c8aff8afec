//! What can be set while a router runs, and what that makes of a plan.
//!
//! Each is a key of the plan, which a file can say as well. A plan with another setting is judged as one that a file says: what a
//! file may not say, nobody can set.

use crate::error::Errors;
use crate::keys::{self, Change, Entry};
use crate::plan::{Guarantee, Nic, Plan, Router};
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
    /// Whether it runs.
    State,
    /// Whether the cable of a NIC is plugged in.
    Link,
}

impl Key {
    /// Whether it says where threads are, how they are scheduled, or what they have to keep up with.
    pub const fn is_of_threads(self) -> bool {
        !matches!(self, Self::Limit | Self::Restart | Self::State | Self::Link)
    }
}

/// A key that can be set while a router runs, as it is explained to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Which one it is.
    pub key: Key,
    /// Its name, in which `KEY`, `CLASS` and `NIC` stand for several words.
    pub name: String,
    /// What it takes.
    pub value: &'static str,
    /// What is so where a file does not say it.
    pub default: &'static str,
    /// What it does.
    pub does: &'static str,
    /// Which packets a change loses; none: no packet.
    pub loses: Option<&'static str>,
}

impl Setting {
    /// All of them: who looks one up by its name finds it here, and so does the help.
    pub fn all() -> Vec<Self> {
        let of_router = keys::ROUTER.iter().filter_map(|entry| Self::of(entry, ""));
        of_router.chain(keys::nic().iter().filter_map(|entry| Self::of(entry, "NIC."))).collect()
    }

    fn of<T>(entry: &Entry<T>, before: &str) -> Option<Self> {
        let (key, loses) = match entry.change {
            Change::Free(key) => (key, None),
            Change::Loses(key, what) => (key, Some(what)),
            Change::Replaces => return None,
        };
        let (name, Entry { takes, default, does, .. }) = (format!("{before}{}", entry.name), entry);
        Some(Self { key, name, value: takes, default, does, loses })
    }

    /// What a change costs, in words: which packets are lost.
    pub fn price(&self) -> String {
        self.loses.map_or_else(|| "no packet is lost".to_owned(), |what| format!("{what} is lost"))
    }

    /// The setting of this name, such as `limit`, `sched.vhost.priority` or `wan.link`.
    pub fn find(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|setting| setting.is_called(name))
    }

    fn is_called(&self, name: &str) -> bool {
        let is_nic = |word: &str| values::name(word).is_ok();
        let is_key = |word: &str| crate::sched::KEYS.contains(&word);
        let is_class = |word: &str| ["vcpu", "vhost"].contains(&word);
        let words: Vec<&str> = name.split('.').collect();
        match (self.name.as_str(), words.as_slice()) {
            ("NIC.link", [nic, "link"]) => is_nic(nic),
            ("sched.KEY", ["sched", key]) => is_key(key),
            ("sched.CLASS", ["sched", class]) => is_class(class),
            ("sched.CLASS.KEY", ["sched", class, key]) => is_class(class) && is_key(key),
            (own, _) => own == name,
        }
    }

    /// What is said of a name that nothing has.
    fn unknown(name: &str) -> BadValue {
        let names: Vec<String> = Self::all().into_iter().map(|setting| setting.name).collect();
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
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BadValue> {
        let setting = Setting::find(key).ok_or_else(|| Setting::unknown(key))?;
        let done = self.change(setting.key, key, value);
        done.map_err(|what| BadValue(format!("router {}: {key}: {}", self.name, without(key, &what))))
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
            Key::State => self.state = Some(crate::read::POWERS.find(value)?),
            Key::Link => {
                let nic = self.nic_of(key)?;
                nic.link = Some(crate::nic::LINKS.find(value)?);
            }
        }
        Ok(())
    }

    /// The NIC that a key such as `wan.link` is about; or a line that names those that there are.
    fn nic_of(&mut self, key: &str) -> Result<&mut Nic, String> {
        let name = key.split('.').next().unwrap_or(key);
        let names: Vec<String> = self.nics.iter().map(|nic| nic.name.clone()).collect();
        let found = self.nics.iter_mut().find(|known| known.name == name);
        found.ok_or_else(|| format!("there is no NIC {name:?}; NICs: {}", names.join(", ")))
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
