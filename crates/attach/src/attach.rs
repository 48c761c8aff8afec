//! Attachment of a NIC in a file: `KIND:NAME`, and the keys that only some kinds have.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kinds::{ALL, null};
use crate::{AttachmentProperties, Fields, Key, Kind, Place};

/// Attachment of a NIC in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Attach {
    /// The text in the file: `switch:lan`.
    text: String,
    /// The keys of its kind, as far as the file sets them or they have a default.
    keys: BTreeMap<String, String>,
}

impl Attach {
    /// Returns the attachment to nothing: frames sent are counted and dropped, and none are received.
    pub fn null() -> Self {
        Self::of("null")
    }

    /// Returns the attachment to a program that is handed the NIC's rings, at a socket that we connect to.
    pub fn handed(path: &str) -> Self {
        let mut attach = Self::of(&format!("vhost-user-frontend:{path}"));
        attach.set("socket", "connect");
        attach
    }

    fn of(text: &str) -> Self {
        Self { text: text.to_owned(), keys: BTreeMap::new() }
    }

    /// Parses the text; its keys are still to be [`set`](Self::set).
    ///
    /// # Errors
    /// The error, and what would be valid.
    pub fn read(text: &str) -> Result<Self, String> {
        let attach = Self::of(text);
        let kind = attach.find().ok_or_else(|| format!("{text:?} is no attachment; forms: {}", forms()))?;
        (kind.read)(text, attach.name())?;
        Ok(attach)
    }

    fn word(&self) -> &str {
        self.text.split(':').next().unwrap_or_default()
    }

    /// Finds its kind. An unknown word is no kind, with or without a name; a known one without its name is
    /// found, so that the missing name is reported.
    fn find(&self) -> Option<&'static Kind> {
        let is_it =
            |kind: &&Kind| kind.word == self.word() && (kind.behind.is_some() || kind.word == self.text);
        ALL.iter().copied().find(is_it)
    }

    /// Sets one of its keys.
    pub fn set(&mut self, key: &str, value: &str) {
        self.keys.insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn spec(&self) -> &'static Kind {
        self.find().unwrap_or(&null::KIND)
    }

    /// Returns its name in files, before the colon.
    pub fn kind(&self) -> &'static str {
        self.spec().word
    }

    /// Returns the name after the colon.
    pub fn name(&self) -> &str {
        self.text.split_once(':').map_or("", |(_, name)| name)
    }

    /// Returns the keys of its kind.
    pub fn keys(&self) -> &'static [Key] {
        self.spec().keys
    }

    /// Returns the value of a key.
    pub fn key(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(String::as_str)
    }

    /// Describes its keys, to be appended to its name; often empty.
    pub fn detail(&self) -> String {
        self.detail_of(|_| true)
    }

    /// Describes those of its keys whose values change only with the interface.
    pub fn fixed_detail(&self) -> String {
        self.detail_of(|key| key.in_place.is_none())
    }

    fn detail_of(&self, is_said: impl Fn(&Key) -> bool) -> String {
        let said = |key: &Key| Some(format!("{}{}", key.verb, self.key(key.name)?));
        let said: Vec<String> = self.keys().iter().filter(|key| is_said(key)).filter_map(said).collect();
        if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) }
    }

    /// Returns the properties that the rest of a plan depends on.
    pub fn traits(&self) -> AttachmentProperties {
        (self.spec().traits)(self)
    }

    /// Returns true if a NIC of a kernel router can use this attachment.
    pub fn takes_kernel(&self) -> bool {
        self.spec().kernel.is_some()
    }

    /// Returns true if only kernel routers can use it.
    pub fn is_for_kernel(&self) -> bool {
        matches!(self.spec().place, Place::Kernel)
    }

    /// Returns true if the interface in a kernel router has a NAPI instance of its own, so that kernel threads can do its
    /// receive work.
    pub fn has_napi(&self) -> bool {
        self.spec().kernel.is_some_and(|kernel| kernel.has_napi)
    }

    /// Returns the switch of the run, if it is a port of one.
    pub fn switch(&self) -> Option<&str> {
        (self.kind() == "switch").then_some(self.name())
    }

    /// Returns the interface of the host that it is based on, if any.
    pub fn lower(&self) -> Option<&str> {
        self.traits().is_on_interface.then_some(self.name())
    }
}

impl fmt::Display for Attach {
    /// Writes the text as in a file: `switch:lan`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Returns the names of all kinds.
pub fn words() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|kind| kind.word)
}

/// Returns the keys that only some kinds have, each with the form of the first kind that has it.
pub fn keys() -> impl Iterator<Item = (&'static Key, String)> {
    ALL.iter().flat_map(|kind| kind.keys.iter().map(move |key| (key, kind.form())))
}

/// Returns the counters of all kinds: the name of each group in metrics, and its fields with their meaning.
pub fn counts() -> impl Iterator<Item = (&'static str, Fields)> {
    ALL.iter().flat_map(|kind| kind.counts.iter().copied())
}

/// Returns the forms of attachments: `tap:INTERFACE`.
fn forms() -> String {
    ALL.iter().map(|kind| kind.form()).collect::<Vec<_>>().join(", ")
}

/// Checks the name of an interface: what the kernel would refuse, and `%`, which would make the kernel choose
/// a number.
pub(crate) fn interface(_: &str, name: &str) -> Result<(), String> {
    let plain = |octet: u8| octet.is_ascii_graphic() && !b"/:%".contains(&octet);
    if (1..=15).contains(&name.len()) && name.bytes().all(plain) && name != "." && name != ".." {
        return Ok(());
    }
    Err(format!("{name:?} is not an interface name; use 1 to 15 visible ASCII characters except / : %"))
}

/// Checks the path of a file.
pub(crate) fn path(text: &str, name: &str, example: &str) -> Result<(), String> {
    if name.is_empty() || name.contains('\0') {
        let kind = text.split(':').next().unwrap_or(text);
        return Err(format!("{text:?} names no file; write e.g. \"{kind}:{example}\""));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
