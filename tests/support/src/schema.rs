//! Tables of `docs/json.md`, for tests: check that an object has the keys and kinds of values documented there.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// One table: kinds by path, and whether the value may be absent.
pub struct Table {
    heading: String,
    rows: BTreeMap<String, (Vec<String>, bool)>,
}

/// Checks each line of a verb's output against the table with this heading: `ps`, `check router`.
pub fn check_lines(heading: &str, text: &str) {
    let table = Table::of(heading);
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?} does not end with its line");
    for line in text.lines() {
        let object = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        table.check(&object);
    }
}

/// Words of a text that are between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

impl Table {
    /// Reads the table under this heading.
    pub fn of(heading: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
        let text = std::fs::read_to_string(path).expect("docs/json.md");
        let is_it = |line: &&str| line.starts_with("##") && quoted(line).join(" ") == heading;
        let below = text.lines().skip_while(|line| !is_it(line)).skip(1);
        let lines = below.take_while(|line| !line.starts_with('#'));
        let rows = lines.filter(|line| line.starts_with("| `")).map(row).collect::<BTreeMap<_, _>>();
        assert!(!rows.is_empty(), "docs/json.md has no table {heading:?}");
        Self { heading: heading.to_owned(), rows }
    }

    /// # Panics
    /// The value is no object, has a key that the table has not, lacks one that it has, or one of another kind.
    pub fn check(&self, object: &Value) {
        assert!(object.is_object(), "{object}");
        self.walk("", object);
    }

    fn walk(&self, path: &str, value: &Value) {
        if let Some((kinds, _)) = self.rows.get(path) {
            assert!(
                kinds.iter().any(|kind| is_kind(kind, value)),
                "{}: {path}: {value} is no {kinds:?}",
                self.heading
            );
            return;
        }
        assert!(self.below(path).next().is_some(), "{}: {path} is not in the table", self.heading);
        match value {
            Value::Object(fields) => self.walk_fields(path, fields),
            Value::Array(items) => items.iter().for_each(|item| self.walk(&format!("{path}[]"), item)),
            _ => panic!("{}: {path}: {value} is neither an object nor a list", self.heading),
        }
    }

    fn walk_fields(&self, path: &str, fields: &serde_json::Map<String, Value>) {
        let under = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let is_free = self.below(&under("*")).next().is_some() || self.rows.contains_key(&under("*"));
        for (name, value) in fields {
            self.walk(&under(if is_free { "*" } else { name }), value);
        }
        for (rest, may_lack) in self.below(path) {
            let name = rest.split(['.', '[']).next().unwrap_or_default();
            let is_there = may_lack || name == "*" || fields.contains_key(name);
            assert!(is_there, "{}: {path}: {name} is missing in {fields:?}", self.heading);
        }
    }

    /// Keys that the rows below a path add to it.
    fn below(&self, path: &str) -> impl Iterator<Item = (&str, bool)> {
        self.rows.iter().filter_map(move |(row, (_, may_lack))| {
            let rest = row.strip_prefix(path)?;
            let rest = if path.is_empty() {
                rest
            } else {
                rest.strip_prefix('.').or(rest.starts_with('[').then_some(rest))?
            };
            Some((rest, *may_lack))
        })
    }
}

/// Parses path, kinds, and whether it may be absent.
fn row(line: &str) -> (String, (Vec<String>, bool)) {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let path = quoted(cells[1])[0].to_owned();
    let (kinds, may_lack) = cells[2].strip_suffix('?').map_or((cells[2], false), |kinds| (kinds, true));
    (path, (kinds.split(" or ").map(str::to_owned).collect(), may_lack))
}

fn is_kind(kind: &str, value: &Value) -> bool {
    match kind {
        "number" => value.is_number(),
        "text" => value.is_string(),
        "true" | "false" => value.is_boolean(),
        "list" => value.as_array().is_some_and(|items| items.iter().all(Value::is_number)),
        "null" => value.is_null(),
        other => panic!("docs/json.md: {other:?} is no kind"),
    }
}
