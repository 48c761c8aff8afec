//! Settings that can be changed while a router runs, and their effect on a plan.
//!
//! Each setting is a key of the plan that a file can contain as well. A changed plan is validated like a
//! file: what a file may not say cannot be set.

use crate::error::Errors;
use crate::keys::{self, Change, Entry};
use crate::plan::{ForwardingSettings, Guarantee, Nic, Plan, Router};
use crate::values::{self, BadValue};
use crate::{affinity, group, kernel, rate, verify};

/// Identifies a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Promised rate; the size of its frames stays.
    Guarantee,
    /// Promised rate, by its key in the table.
    GuaranteeRate,
    /// Frame size of a promised rate.
    GuaranteeFrame,
    /// Highest rate that it may forward.
    Limit,
    /// CPUs that the vCPU threads are pinned to.
    PinVcpu,
    /// CPUs that the vhost threads are pinned to.
    PinVhost,
    /// CPUs within which the kernel places the vCPU threads.
    AffinityVcpu,
    /// CPUs within which the kernel places the vhost threads.
    AffinityVhost,
    /// Scheduling policies of its threads, as a whole table or a key of it.
    Sched,
    /// Polling budget of its threads.
    Spin,
    /// Policy for when it stops by itself.
    Restart,
    /// Desired power state: running or stopped.
    State,
    /// State of a NIC's cable.
    Link,
    /// Forwarding by the host's kernel.
    Forwarding,
    /// Source address validation by the host's kernel.
    RpFilter,
    /// Proxy ARP by the host's kernel.
    ProxyArp,
    /// Threaded NAPI.
    Threaded,
    /// Counters of the kernel's drops by its reason.
    DropReasons,
    /// Number of members of a group, besides spare ones.
    Members,
    /// Number of members of a group that are awake.
    Awake,
    /// Number of spare members of a group.
    Spare,
    /// Number of balancers of a group.
    Balancers,
}

impl Key {
    /// Returns true if it concerns the placement of threads, their scheduling, or the rate that they must
    /// sustain.
    pub const fn is_of_threads(self) -> bool {
        let is_of_others = matches!(self, Self::Limit | Self::Restart | Self::State | Self::Link);
        !is_of_others && !self.is_of_kernel() && !self.is_of_group()
    }

    /// Returns true if it is a number of routers or balancers, which only a group has.
    pub const fn is_of_group(self) -> bool {
        matches!(self, Self::Members | Self::Awake | Self::Spare | Self::Balancers)
    }

    /// Returns true if a change of it may create or move threads.
    pub const fn moves_threads(self) -> bool {
        self.is_of_threads() || matches!(self, Self::Threaded)
    }

    /// Returns true if it concerns forwarding by the host's kernel.
    pub const fn is_of_kernel(self) -> bool {
        matches!(
            self,
            Self::Forwarding | Self::RpFilter | Self::ProxyArp | Self::Threaded | Self::DropReasons
        )
    }
}

/// A key that can be set while a router runs, as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Identifier.
    pub key: Key,
    /// Name, in which `KEY`, `CLASS` and `NIC` are placeholders.
    pub name: String,
    /// Accepted values.
    pub value: &'static str,
    /// Default.
    pub default: &'static str,
    /// Effect.
    pub does: &'static str,
    /// Packets that a change loses; `None`: no packet.
    pub loses: Option<&'static str>,
}

impl Setting {
    /// All settings, for look-ups by name and for the help.
    pub fn all() -> Vec<Self> {
        let of_router = keys::ROUTER.iter().filter_map(|entry| Self::of(entry, ""));
        let of_group = group::GROUP.iter().chain([&group::AWAKE]).filter_map(|entry| Self::of(entry, ""));
        let nic = keys::nic();
        let of_nic = nic.iter().filter_map(|entry| Self::of(entry, "NIC."));
        of_router.chain(of_nic).chain(of_group).collect()
    }

    fn of<T>(entry: &Entry<T>, before: &str) -> Option<Self> {
        let (key, loses) = match entry.change {
            Change::Free(key) => (key, None),
            Change::Loses(key, what) => (key, Some(what)),
            Change::Replaces | Change::Applies | Change::AppliesAndLoses(_) | Change::Refused => return None,
        };
        let (name, Entry { takes, default, does, .. }) = (format!("{before}{}", entry.name), entry);
        Some(Self { key, name, value: takes, default, does, loses })
    }

    /// Finds a setting by name, such as `limit`, `sched.vhost.priority` or `wan.link`.
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

    /// Error for an unknown name.
    fn unknown(name: &str) -> BadValue {
        let names: Vec<String> = Self::all().into_iter().map(|setting| setting.name).collect();
        BadValue(format!("{name:?} cannot be set while a router runs; keys: {}", names.join(", ")))
    }
}

impl Plan {
    /// Returns the plan with one setting of a router or group changed, if a file could say so.
    ///
    /// # Errors
    /// There is no such router, group or setting, the setting does not accept the value, or the plan as a whole
    /// would be invalid: one line that names router and key, with the same wording as for a file.
    pub fn with(&self, router: &str, key: &str, value: &str) -> Result<Self, BadValue> {
        if self.group(router).is_some() {
            return self.with_in_group(router, key, value);
        }
        let mut plan = self.clone();
        let found = plan.routers.iter_mut().find(|known| known.name == router).ok_or_else(|| {
            let names: Vec<&str> = self.routers.iter().map(|router| router.name.as_str()).collect();
            BadValue(format!("there is no router {router:?}; routers: {}", names.join(", ")))
        })?;
        if found.group().is_some() && is_of_rates(key) {
            let what = format!("router {router}: {key}: a part of a group has none in this version");
            return Err(BadValue(what));
        }
        found.set(key, value)?;
        let faults = verify::verify(&plan);
        if faults.is_empty() { Ok(plan) } else { Err(plan.errors(faults).of_setting(router, key)) }
    }
}

impl Errors {
    /// Describes the errors after a client has set this key of a router: one line, by names instead of lines
    /// of a file.
    pub fn of_setting(&self, router: &str, key: &str) -> BadValue {
        let line = |error: &crate::Error| {
            let own = error.key.strip_prefix("router.").or_else(|| error.key.strip_prefix("group."));
            let own = own.unwrap_or(&error.key);
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

/// Returns true if a key is that of a promised rate or of a highest one, which groups and their parts do not have.
pub(crate) fn is_of_rates(key: &str) -> bool {
    ["guarantee", "limit"].iter().any(|table| is_below(key, table))
}

/// Returns true if a key is `table` itself, or one of its keys.
fn is_below(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Router {
    /// Changes one setting. [`Plan::with`] validates the plan as a whole.
    ///
    /// # Errors
    /// There is no such setting, or it does not accept the value: one line that names router and key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BadValue> {
        let setting = Setting::find(key).ok_or_else(|| Setting::unknown(key))?;
        let done = self.change(setting.key, key, value);
        done.map_err(|what| BadValue(format!("router {}: {key}: {}", self.name, without(key, &what))))
    }

    fn change(&mut self, of: Key, key: &str, value: &str) -> Result<(), String> {
        if let Some(why) = kernel::not_to_be_set(self, of) {
            return Err(why.to_owned());
        }
        if let Some(kernel) = self.kernel.as_mut().filter(|_| of.is_of_kernel()) {
            return of_kernel(kernel, of, value);
        }
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
            // Settings of kernel routers were changed above.
            Key::Forwarding | Key::RpFilter | Key::ProxyArp | Key::Threaded | Key::DropReasons => {}
            Key::Members | Key::Awake | Key::Spare | Key::Balancers => {
                return Err("only a group has it".to_owned());
            }
        }
        Ok(())
    }

    /// Finds the NIC of a key such as `wan.link`. The error lists the existing NICs.
    fn nic_of(&mut self, key: &str) -> Result<&mut Nic, String> {
        let name = key.split('.').next().unwrap_or(key);
        let names: Vec<String> = self.nics.iter().map(|nic| nic.name.clone()).collect();
        let found = self.nics.iter_mut().find(|known| known.name == name);
        found.ok_or_else(|| format!("there is no NIC {name:?}; NICs: {}", names.join(", ")))
    }
}

/// Changes a forwarding setting of a kernel router.
fn of_kernel(kernel: &mut ForwardingSettings, of: Key, value: &str) -> Result<(), String> {
    match of {
        Key::Forwarding => kernel.forwarding = kernel::flag(value)?,
        Key::RpFilter => kernel.rp_filter = kernel::RP_FILTERS.find(value)?,
        Key::ProxyArp => kernel.proxy_arp = kernel::flag(value)?,
        Key::Threaded => kernel.threaded = Some(kernel::flag(value)?),
        Key::DropReasons => kernel.drop_reasons = kernel::flag(value)?,
        _ => {}
    }
    Ok(())
}

/// Removes the key from a message that repeats it, because it was parsed as part of a table.
fn without<'w>(key: &str, what: &'w str) -> &'w str {
    let last = key.rsplit('.').next().unwrap_or(key);
    let is_same =
        |place: &str| place == key || place.strip_suffix(last).is_some_and(|table| table.ends_with('.'));
    what.split_once(": ").filter(|(place, _)| is_same(place)).map_or(what, |(_, what)| what)
}

/// Parses a value as in a file, or the word for none.
fn optional<T>(value: &str, none: &str, read: fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if value == none {
        return Ok(None);
    }
    read(value).map(Some).map_err(|what| format!("{what}, or {none}"))
}

/// Promise with another frame size.
fn of_frames(promised: Option<Guarantee>, value: &str) -> Result<Guarantee, String> {
    let promised = promised.ok_or("nothing is promised yet; set guarantee=RATE first")?;
    let frame = if value.parse::<i64>().is_ok() { value.to_owned() } else { format!("{value:?}") };
    rate::guarantee_of(&format!("{{ rate = \"{}\", frame = {frame} }}", promised.rate))
}
