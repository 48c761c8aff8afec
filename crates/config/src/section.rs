//! Reader of a table of the document. Each value is read with its line; faults are reported and reading
//! continues, so that one run over a file finds all its faults.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

pub(crate) use attach::Keywords;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Errors;
use crate::fault::Fault;
use crate::plan::Plan;

/// Collects faults, and maps offsets to lines.
pub(crate) struct Report {
    line_starts: Vec<usize>,
    errors: RefCell<Errors>,
}

impl Report {
    pub(crate) fn new(text: &str, file: &str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, octet)| *octet == b'\n');
        let line_starts = newlines.map(|(offset, _)| offset + 1).collect();
        Self { line_starts, errors: RefCell::new(Errors::new(file)) }
    }

    /// Line on which a span begins, from 1.
    pub(crate) fn line(&self, span: Range<usize>) -> u32 {
        let before = self.line_starts.partition_point(|start| *start <= span.start);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn error(&self, line: u32, key: &str, what: impl Into<String>) {
        self.errors.borrow_mut().push(line, key, what);
    }

    /// Adds a fault of the plan.
    pub(crate) fn note(&self, plan: &Plan, fault: Fault) {
        plan.note(fault, &mut self.errors.borrow_mut());
    }

    pub(crate) fn into_errors(self) -> Errors {
        self.errors.into_inner().sorted()
    }
}

/// A value with its line in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WithLine<T> {
    pub(crate) value: T,
    pub(crate) line: u32,
}

/// A number, or a word in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberOr {
    Number(u32),
    Word,
}

/// A table of the document.
pub(crate) struct Section<'a> {
    table: &'a DeTable<'a>,
    /// Name with its parents, e.g. `router.nic`; empty for the document itself.
    path: String,
    /// Line on which it begins.
    pub(crate) line: u32,
    pub(crate) report: &'a Report,
}

impl<'a> Section<'a> {
    pub(crate) fn document(table: &'a DeTable<'a>, report: &'a Report) -> Self {
        Self { table, path: String::new(), line: 1, report }
    }

    /// Reports every key that is neither in `known` nor in `later`, with the most similar known one.
    pub(crate) fn expect_keys(&self, known: &[&str], later: &[&str]) {
        for name in self.table.keys() {
            let (line, word) = (self.report.line(name.span()), name.get_ref().as_ref());
            if later.contains(&word) {
                let what = format!("not in this version; keys: {}", known.join(", "));
                self.report.error(line, &self.key(word), what);
            } else if !known.contains(&word) {
                let what = match nearest(word, known) {
                    Some(near) => format!("unknown key; did you mean {near:?}?"),
                    None => format!("unknown key; keys: {}", known.join(", ")),
                };
                self.report.error(line, &self.key(word), what);
            }
        }
    }

    /// Whether it is a table of this name, which stands in the document itself.
    pub(crate) fn is(&self, path: &str) -> bool {
        self.path == path
    }

    /// Key with the names of its tables.
    pub(crate) fn key(&self, name: &str) -> String {
        let name = if is_bare(name) { name.to_owned() } else { format!("{name:?}") };
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }

    /// Reports a fault of a key's value.
    pub(crate) fn fault(&self, line: u32, key: &str, what: impl Into<String>) {
        self.report.error(line, &self.key(key), what);
    }

    /// Reports a missing key.
    pub(crate) fn missing(&self, key: &str, example: &str) {
        self.fault(self.line, key, format!("missing; write e.g. {key} = {example}"));
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    /// Returns true if the table has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Line of a key's value, or of the table if the key is missing.
    pub(crate) fn line_of(&self, key: &str) -> u32 {
        self.value(key).map_or(self.line, |value| self.report.line(value.span()))
    }

    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) {
        let found = value.get_ref().type_str();
        let article = if found.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
        self.fault(
            self.report.line(value.span()),
            key,
            format!("{article} {found} where {expected} is expected"),
        );
    }

    /// Reads a string.
    pub(crate) fn text(&self, key: &str, example: &str) -> Option<WithLine<&'a str>> {
        let value = self.value(key)?;
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(key, value, &format!("a string such as {example}"));
            return None;
        };
        Some(WithLine { value: text, line: self.report.line(value.span()) })
    }

    /// Returns a string without reporting anything else in its place.
    pub(crate) fn peek_text(&self, key: &str) -> Option<&'a str> {
        self.value(key)?.get_ref().as_str()
    }

    /// Reads a required string.
    pub(crate) fn required_text(&self, key: &str, example: &str) -> Option<WithLine<&'a str>> {
        if self.value(key).is_none() {
            self.missing(key, example);
        }
        self.text(key, example)
    }

    /// Reads a string or an array of strings.
    pub(crate) fn texts(&self, key: &str, example: &str) -> Vec<WithLine<&'a str>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            return self.text(key, example).into_iter().collect();
        };
        let mut texts = Vec::new();
        for item in array {
            match item.get_ref().as_str() {
                Some(text) => texts.push(WithLine { value: text, line: self.report.line(item.span()) }),
                None => self.wrong_type(key, item, &format!("a string such as {example}")),
            }
        }
        texts
    }

    /// Returns true if the key's value is an array.
    pub(crate) fn is_array(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value.get_ref().as_array().is_some())
    }

    /// Reads an array of integers within a range; if some are invalid, they are reported and it is taken for empty.
    pub(crate) fn numbers(&self, key: &str, range: RangeInclusive<u32>) -> Vec<u32> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let (first, last) = (range.start(), range.end());
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(key, value, &format!("an array of whole numbers from {first} to {last}"));
            return Vec::new();
        };
        let integers = array.iter().map(|item| {
            if item.get_ref().as_integer().is_none() {
                self.wrong_type(key, item, &format!("a whole number from {first} to {last}"));
            }
            self.integer(key, item, &range)
        });
        // All are looked at, so that all faults are reported.
        let integers: Vec<Option<u32>> = integers.collect();
        integers.into_iter().collect::<Option<_>>().unwrap_or_default()
    }

    /// Reads an integer within a range.
    pub(crate) fn number(&self, key: &str, range: RangeInclusive<u32>, default: u32) -> u32 {
        let Some(value) = self.value(key) else { return default };
        if value.get_ref().as_integer().is_none() {
            let (first, last) = (range.start(), range.end());
            self.wrong_type(key, value, &format!("a whole number from {first} to {last}"));
            return default;
        }
        self.integer(key, value, &range).unwrap_or(default)
    }

    /// Reads an integer within a range, or the one word allowed in its place; `None` if it is missing or
    /// invalid.
    pub(crate) fn number_or(&self, key: &str, range: RangeInclusive<u32>, word: &str) -> Option<NumberOr> {
        let value = self.value(key)?;
        let (first, last) = (range.start(), range.end());
        match value.get_ref() {
            DeValue::Integer(_) => self.integer(key, value, &range).map(NumberOr::Number),
            DeValue::String(text) if text == word => Some(NumberOr::Word),
            DeValue::String(text) => {
                let what = format!("{text:?} is out of range; write {first} to {last}, or {word:?}");
                self.fault(self.report.line(value.span()), key, what);
                None
            }
            _ => {
                self.wrong_type(key, value, &format!("a whole number from {first} to {last}, or {word:?},"));
                None
            }
        }
    }

    /// Converts an integer within a range; reports one outside of it.
    fn integer(&self, key: &str, value: &Spanned<DeValue<'_>>, range: &RangeInclusive<u32>) -> Option<u32> {
        let integer = value.get_ref().as_integer()?;
        let (first, last) = (range.start(), range.end());
        match u32::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                let line = self.report.line(value.span());
                self.fault(line, key, format!("{integer} is out of range; write {first} to {last}"));
                None
            }
        }
    }

    /// Reads a number with up to `digits` decimals, as an integer in units of the last decimal, within a
    /// range of such units; `None` if it is missing, or invalid, which is reported.
    pub(crate) fn decimal(&self, key: &str, range: RangeInclusive<u32>, digits: u32) -> Option<u32> {
        let value = self.value(key)?;
        let units = f64::from(10_u32.pow(digits));
        let (first, last) = (f64::from(*range.start()) / units, f64::from(*range.end()) / units);
        let (text, plain) = match value.get_ref() {
            DeValue::Integer(number) => (number.as_str(), number.radix() == 10),
            DeValue::Float(number) => (number.as_str(), true),
            _ => {
                self.wrong_type(key, value, &format!("a number from {first} to {last}"));
                return None;
            }
        };
        let number = text.parse::<f64>().ok().filter(|number| plain && (first..=last).contains(number));
        if number.is_none() {
            let line = self.report.line(value.span());
            self.fault(line, key, format!("{text} is out of range; write {first} to {last}"));
        }
        // In range, and the range is of type u32.
        number.map(|number| (number * units).round() as u32)
    }

    /// Returns true if the key's value is a table.
    pub(crate) fn is_table(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value.get_ref().as_table().is_some())
    }

    /// Reads one of several words.
    pub(crate) fn word<T: Copy + Default>(&self, key: &str, words: &Keywords<T>) -> T {
        let example = words.now.first().map_or(String::new(), |(name, _)| format!("{name:?}"));
        let Some(text) = self.text(key, &example) else { return T::default() };
        words.find(text.value).unwrap_or_else(|what| {
            self.fault(text.line, key, what);
            T::default()
        })
    }

    /// Reads `true` or `false`; `otherwise` if it is missing.
    pub(crate) fn flag(&self, key: &str, otherwise: bool) -> bool {
        let Some(value) = self.value(key) else { return otherwise };
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(key, value, "true or false");
        }
        flag.unwrap_or(otherwise)
    }

    /// Reads a table.
    pub(crate) fn table(&self, key: &str, example: &str) -> Option<Section<'a>> {
        let value = self.value(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(key, value, &format!("a table such as {example}"));
            return None;
        };
        Some(self.inner(key, table, self.report.line(value.span())))
    }

    /// Reads an array of tables.
    pub(crate) fn tables(&self, key: &str) -> Vec<Section<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let header = format!("[[{}]]", self.key(key));
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(key, value, &format!("an array of tables {header}"));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in array {
            match item.get_ref().as_table() {
                Some(table) => tables.push(self.inner(key, table, self.report.line(item.span()))),
                None => self.wrong_type(key, item, &format!("a table {header}")),
            }
        }
        tables
    }

    /// Reads the tables inside this one, with their names, in the order of the file.
    pub(crate) fn named_tables(&self) -> Vec<(WithLine<&'a str>, Option<Section<'a>>)> {
        let mut tables: Vec<_> = self.table.iter().collect();
        tables.sort_by_key(|(name, _)| name.span().start);
        let tables = tables.into_iter().map(|(name, _)| {
            let at = WithLine { value: name.get_ref().as_ref(), line: self.report.line(name.span()) };
            (at, self.table(at.value, &format!("[{}]", self.key(at.value))))
        });
        tables.collect()
    }

    fn inner(&self, key: &str, table: &'a DeTable<'a>, line: u32) -> Section<'a> {
        Section { table, path: self.key(key), line, report: self.report }
    }
}

/// Parses a text that consists only of the value of a key, in the notation of the file.
///
/// # Errors
/// The first fault, with its key.
pub(crate) fn value<T>(
    text: &str,
    key: &str,
    example: &str,
    read: impl FnOnce(&Section<'_>) -> T,
) -> Result<T, String> {
    let wrong = || format!("{text:?} is no such table; write e.g. {example}");
    if text.contains(char::is_control) {
        return Err(wrong());
    }
    let document = format!("{key} = {text}");
    let report = Report::new(&document, "");
    let (table, faults) = DeTable::parse_recoverable(&document);
    if !faults.is_empty() {
        return Err(wrong());
    }
    let section = Section::document(table.get_ref(), &report);
    let value = read(&section);
    section.expect_keys(&[key], &[]);
    match report.into_errors().errors.into_iter().next() {
        Some(error) => Err(format!("{}: {}", error.key, error.what)),
        None => Ok(value),
    }
}

fn is_bare(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_')
}

/// Known word that `word` most likely stands for.
fn nearest<'w>(word: &str, known: &[&'w str]) -> Option<&'w str> {
    let scored = known.iter().map(|name| (strsim::damerau_levenshtein(word, name), *name));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= name.len().div_ceil(3)).then_some(name)
}
