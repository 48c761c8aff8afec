//! Descriptions of calls and arguments, and their conversion to filters of the crate `seccompiler`.

use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

/// A system call and the arguments with which it is meant. Numbers that are checked are 32 bits wide for the
/// kernel as well; addresses have 64.
#[derive(Clone, Debug)]
pub(crate) struct Allowed {
    call: i64,
    /// Alternatives, each a list of conditions that must all hold; empty: any arguments.
    choices: Vec<Vec<Condition>>,
}

#[derive(Clone, Debug)]
struct Condition {
    argument: u8,
    width: SeccompCmpArgLen,
    is: SeccompCmpOp,
    value: u64,
}

/// The call with any arguments.
pub(crate) fn any(call: i64) -> Allowed {
    Allowed { call, choices: Vec::new() }
}

/// The call, if the argument is one of these values.
pub(crate) fn one_of(call: i64, argument: u8, values: &[u64]) -> Allowed {
    let choice = |value: &u64| vec![Condition::number(argument, SeccompCmpOp::Eq, *value)];
    Allowed { call, choices: values.iter().map(choice).collect() }
}

/// The call, if the argument differs from this value.
pub(crate) fn other_than(call: i64, argument: u8, value: u64) -> Allowed {
    Allowed { call, choices: vec![vec![Condition::number(argument, SeccompCmpOp::Ne, value)]] }
}

/// The call, if none of these bits is set in the argument.
pub(crate) fn flags_clear(call: i64, argument: u8, bits: i32) -> Allowed {
    any(call).and_masked(argument, bits, 0)
}

impl Allowed {
    /// Adds the condition that of the bits of `mask` in the argument exactly those of `bits` are set.
    pub(crate) fn and_masked(self, argument: u8, mask: i32, bits: i32) -> Self {
        let is = SeccompCmpOp::MaskedEq(u64::from(mask as u32));
        self.and(&Condition::number(argument, is, u64::from(bits as u32)))
    }

    /// Adds the condition that the argument is the null pointer.
    pub(crate) fn and_null(self, argument: u8) -> Self {
        self.and(&Condition { argument, width: SeccompCmpArgLen::Qword, is: SeccompCmpOp::Eq, value: 0 })
    }

    fn and(mut self, condition: &Condition) -> Self {
        if self.choices.is_empty() {
            self.choices.push(Vec::new());
        }
        self.choices.iter_mut().for_each(|choice| choice.push(condition.clone()));
        self
    }

    /// Returns true if this describes the given call.
    pub(crate) fn is(&self, call: i64) -> bool {
        self.call == call
    }

    /// Number and rules of the call.
    pub(crate) fn rules(&self) -> Result<(i64, Vec<SeccompRule>), seccompiler::BackendError> {
        let rule = |choice: &Vec<Condition>| {
            SeccompRule::new(choice.iter().map(Condition::build).collect::<Result<_, _>>()?)
        };
        Ok((self.call, self.choices.iter().map(rule).collect::<Result<_, _>>()?))
    }
}

impl Condition {
    const fn number(argument: u8, is: SeccompCmpOp, value: u64) -> Self {
        Self { argument, width: SeccompCmpArgLen::Dword, is, value }
    }

    fn build(&self) -> Result<SeccompCondition, seccompiler::BackendError> {
        SeccompCondition::new(self.argument, self.width.clone(), self.is.clone(), self.value)
    }
}
