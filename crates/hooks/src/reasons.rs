//! Drop reasons of the kernel: `enum skb_drop_reason` (`net/dropreason-core.h`), whose numbers differ between kernel versions.

use std::collections::BTreeMap;

use bpf::Btf;

use crate::Error;

/// Common prefix of their names.
const BEGINS: &str = "SKB_DROP_REASON_";
/// Names of the enumeration that are no reasons.
const LAST: [&str; 2] = ["MAX", "SUBSYS_MASK"];

/// Drop reasons of the running kernel, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons(BTreeMap<u32, String>);

impl Reasons {
    /// Reads the reasons of the running kernel from its BTF.
    ///
    /// # Errors
    /// The kernel does not export the enumeration.
    pub fn of_kernel() -> Result<Self, Error> {
        let types = Btf::of_kernel().map_err(|e| Error::NoTypes { why: e.to_string() })?;
        let values = types.values("skb_drop_reason");
        values.map(Self::read).ok_or_else(|| Error::NoTypes { why: "no enum skb_drop_reason".to_owned() })
    }

    /// Parses the names and values of the enumeration.
    pub(crate) fn read(values: Vec<(String, i32)>) -> Self {
        let reason = |(name, value): (String, i32)| {
            let name = name.strip_prefix(BEGINS)?;
            let is_one = value >= 0 && !LAST.contains(&name);
            is_one.then(|| (value.cast_unsigned(), name.to_ascii_lowercase()))
        };
        Self(values.into_iter().filter_map(reason).collect())
    }

    /// Returns the name of a reason, such as `ip_innoroutes`. A reason without a name, such as one of a single driver, is
    /// `reason_N`.
    pub fn name(&self, reason: u32) -> String {
        self.0.get(&reason).cloned().unwrap_or_else(|| format!("reason_{reason}"))
    }

    /// Iterates over all reasons in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.0.iter().map(|(reason, name)| (*reason, name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names_and_marks_of_the_enumeration_are_none() {
        let named = |name: &str, value| (name.to_owned(), value);
        let reasons = Reasons::read(vec![
            named("SKB_NOT_DROPPED_YET", 0),
            named("SKB_DROP_REASON_NO_SOCKET", 3),
            named("SKB_DROP_REASON_IP_INNOROUTES", 88),
            named("SKB_DROP_REASON_MAX", 128),
            named("SKB_DROP_REASON_SUBSYS_MASK", -65536),
        ]);
        assert_eq!(reasons.iter().collect::<Vec<_>>(), [(3, "no_socket"), (88, "ip_innoroutes")]);
        assert_eq!(
            (reasons.name(88), reasons.name(0x2_0001)),
            ("ip_innoroutes".into(), "reason_131073".into())
        );
    }

    #[test]
    fn this_kernel_names_its_reasons() {
        let Some(reasons) = crate::granted(Reasons::of_kernel()) else { return };
        let names: Vec<&str> = reasons.iter().map(|(_, name)| name).collect();
        assert!(["no_socket", "not_specified"].iter().all(|name| names.contains(name)), "{names:?}");
    }
}
