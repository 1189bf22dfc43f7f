//! A condition of the configuration over the columns of a row, as
//! `srtt_us > 200000 and bytes_acked > 1000000`: compiled once, evaluated on snapshots of rows.

use anyhow::{Result, bail, ensure};
use transom_spool::{Cell, Column, Connection, Kind, Row};

/// Deeper ones are no condition that a person wrote.
const DEEPEST: u32 = 50;

pub struct Condition(Node);

enum Node {
    Number(f64),
    Text(String),
    Column(&'static Column<Connection>),
    Arithmetic(char, Box<[Node; 2]>),
    Compare(&'static str, Box<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Not(Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Number,
    Text,
    Truth,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::Number => "a number",
            Type::Text => "a text",
            Type::Truth => "true or false",
        }
    }
}

/// Null where a column is, and in all that is made of it.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Null,
    Number(f64),
    Text(String),
    Truth(bool),
}

impl Condition {
    /// # Errors
    /// A word that is no column, or something else that is not understood: which.
    pub fn parse(text: &str) -> Result<Condition> {
        let mut parser = Parser { words: words(text)?.into_iter().peekable(), depth: 0 };
        let node = parser.either()?;
        if let Some(word) = parser.words.next() {
            bail!("nothing is expected at `{word}`");
        }
        let found = type_of(&node)?;
        ensure!(found == Type::Truth, "it is {}, not a comparison", found.name());
        Ok(Condition(node))
    }

    /// A comparison with what is not known does not hold.
    pub fn holds(&self, row: &Connection) -> bool {
        value(&self.0, row) == Value::Truth(true)
    }
}

const OPERATORS: [&str; 12] = ["<=", ">=", "!=", "==", "<", ">", "=", "+", "-", "*", "/", "("];
const COMPARISONS: [&str; 8] = ["<=", ">=", "!=", "==", "=", "<>", "<", ">"];

/// Names, numbers, texts in quotes (with the first of them) and operators.
fn words(text: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first == '\'' || first == '"' {
            let end = rest[1..].find(first);
            ensure!(end.is_some(), "a text begins at `{rest}` and does not end");
            let end = end.unwrap_or(0);
            words.push(rest[..=end].to_owned());
            rest = rest[end + 2..].trim_start();
            continue;
        } else if first.is_ascii_alphanumeric() || first == '_' || first == '.' {
            let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            rest.find(|c| !part(c)).unwrap_or(rest.len())
        } else if let Some(operator) =
            ["<>", ")"].iter().chain(&OPERATORS).find(|o| rest.starts_with(**o))
        {
            operator.len()
        } else {
            bail!("`{first}` is nothing that a condition has");
        };
        words.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

struct Parser {
    words: std::iter::Peekable<std::vec::IntoIter<String>>,
    depth: u32,
}

impl Parser {
    fn takes(&mut self, wanted: &str) -> bool {
        self.words.next_if(|word| word == wanted).is_some()
    }

    fn either(&mut self) -> Result<Node> {
        let mut node = self.both()?;
        while self.takes("or") {
            node = Node::Or(Box::new([node, self.both()?]));
        }
        Ok(node)
    }

    fn both(&mut self) -> Result<Node> {
        let mut node = self.negation()?;
        while self.takes("and") {
            node = Node::And(Box::new([node, self.negation()?]));
        }
        Ok(node)
    }

    fn negation(&mut self) -> Result<Node> {
        if self.takes("not") {
            return Ok(Node::Not(Box::new(self.nested(Parser::negation)?)));
        }
        let left = self.sum()?;
        match COMPARISONS.iter().find(|operator| self.takes(operator)) {
            Some(operator) => Ok(Node::Compare(operator, Box::new([left, self.sum()?]))),
            None => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Node> {
        self.chain(['+', '-'], Parser::product)
    }

    fn product(&mut self) -> Result<Node> {
        self.chain(['*', '/'], Parser::atom)
    }

    fn chain(&mut self, of: [char; 2], part: fn(&mut Parser) -> Result<Node>) -> Result<Node> {
        let mut node = part(self)?;
        while let Some(operator) = of.into_iter().find(|c| self.takes(c.encode_utf8(&mut [0; 4]))) {
            node = Node::Arithmetic(operator, Box::new([node, part(self)?]));
        }
        Ok(node)
    }

    fn nested(&mut self, part: fn(&mut Parser) -> Result<Node>) -> Result<Node> {
        self.depth += 1;
        ensure!(self.depth <= DEEPEST, "it is nested more than {DEEPEST} deep");
        let node = part(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn atom(&mut self) -> Result<Node> {
        let Some(word) = self.words.next() else { bail!("it ends where a value is expected") };
        if word == "(" {
            let node = self.nested(Parser::either)?;
            ensure!(self.takes(")"), "a parenthesis is not closed");
            return Ok(node);
        }
        if let Some(text) = word.strip_prefix(['\'', '"']) {
            return Ok(Node::Text(text.to_owned()));
        }
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            let number = word.parse().ok().filter(|number: &f64| number.is_finite());
            let Some(number) = number else { bail!("`{word}` is no number") };
            return Ok(Node::Number(number));
        }
        match Connection::columns().iter().find(|column| column.name == word) {
            Some(column) => Ok(Node::Column(column)),
            None => bail!(
                "`{word}` is no column of the rows (docs/agent-columns.md); a text needs quotes: '{word}'"
            ),
        }
    }
}

fn type_of(node: &Node) -> Result<Type> {
    let all = |nodes: &[Node], wanted: Type, to: Type| {
        for node in nodes {
            let found = type_of(node)?;
            ensure!(found == wanted, "{} stands where {} is expected", found.name(), wanted.name());
        }
        Ok(to)
    };
    match node {
        Node::Number(_) => Ok(Type::Number),
        Node::Text(_) => Ok(Type::Text),
        Node::Column(column) if column.kind == Kind::Text => Ok(Type::Text),
        Node::Column(_) => Ok(Type::Number),
        Node::Arithmetic(_, of) => all(&of[..], Type::Number, Type::Number),
        Node::Compare(operator, of) if type_of(&of[0])? == Type::Text => {
            ensure!(["=", "==", "!=", "<>"].contains(operator), "texts are compared with = or !=");
            all(&of[..], Type::Text, Type::Truth)
        }
        Node::Compare(_, of) => all(&of[..], Type::Number, Type::Truth),
        Node::And(of) | Node::Or(of) => all(&of[..], Type::Truth, Type::Truth),
        Node::Not(of) => all(std::slice::from_ref(&**of), Type::Truth, Type::Truth),
    }
}

fn value(node: &Node, row: &Connection) -> Value {
    let truth = |node: &Node| value(node, row) == Value::Truth(true);
    match node {
        Node::Number(number) => Value::Number(*number),
        Node::Text(text) => Value::Text(text.clone()),
        Node::Column(column) => match (column.get)(row) {
            Cell::Null => Value::Null,
            Cell::Integer(number) => Value::Number(number as f64),
            Cell::Real(number) => Value::Number(number),
            Cell::Text(text) => Value::Text((*text).to_owned()),
            Cell::Name(name) => Value::Text(name.to_owned()),
        },
        Node::Arithmetic(operator, of) => match (value(&of[0], row), value(&of[1], row)) {
            (Value::Number(a), Value::Number(b)) => Value::Number(match operator {
                '+' => a + b,
                '-' => a - b,
                '*' => a * b,
                _ => a / b,
            }),
            _ => Value::Null,
        },
        Node::Compare(operator, of) => {
            Value::Truth(compare(operator, &value(&of[0], row), &value(&of[1], row)))
        }
        Node::And(of) => Value::Truth(truth(&of[0]) && truth(&of[1])),
        Node::Or(of) => Value::Truth(truth(&of[0]) || truth(&of[1])),
        Node::Not(of) => Value::Truth(!truth(of)),
    }
}

fn compare(operator: &str, a: &Value, b: &Value) -> bool {
    if *a == Value::Null || *b == Value::Null {
        return false;
    }
    let order = match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        _ => None,
    };
    let Some(order) = order else { return false };
    match operator {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "!=" | "<>" => order.is_ne(),
        _ => order.is_eq(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row() -> Connection {
        Connection {
            program: Some("curl".into()),
            srtt_us: Some(250_000),
            bytes_acked: 1000,
            busy_us: 400,
            receive_window_limited_us: 300,
            ..Connection::default()
        }
    }

    #[test]
    fn a_condition_is_of_columns_numbers_and_texts() {
        for (text, holds) in [
            ("srtt_us > 200000", true),
            ("srtt_us > 200000 and bytes_acked > 1e6", false),
            ("srtt_us > 200000 or bytes_acked > 1e6", true),
            ("receive_window_limited_us > 0.5 * busy_us", true),
            ("receive_window_limited_us / busy_us >= 0.75 and not program = 'wget'", true),
            ("program = 'curl'", true),
            ("program != \"curl\"", false),
            ("(bytes_acked + 1) * 2 = 2002", true),
            ("bytes_acked - 1 - 1 == 998", true),
            ("1 < 2 or 1 < 2 and 2 < 1", true),
        ] {
            assert_eq!(Condition::parse(text).unwrap().holds(&row()), holds, "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_no_reason() {
        for text in ["p99_rtt_us > 0", "p99_rtt_us <= 0", "unit = 'a'", "unit != 'a'"] {
            assert!(!Condition::parse(text).unwrap().holds(&row()), "{text}");
        }
        assert!(!Condition::parse("unsent / unsent >= 0").unwrap().holds(&row()));
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, says) in [
            ("rtt > 3", "`rtt` is no column"),
            ("srtt_us >", "ends where"),
            ("srtt_us", "a number, not a comparison"),
            ("program > 'a'", "compared with = or !="),
            ("program = 3", "a number stands where a text"),
            ("srtt_us > 3 srtt_us", "nothing is expected at `srtt_us`"),
            ("(srtt_us > 3", "not closed"),
            ("srtt_us > 1.2.3", "`1.2.3` is no number"),
            ("program = 'a", "does not end"),
            ("srtt_us ? 3", "`?` is nothing"),
            ("", "ends where"),
        ] {
            let error = Condition::parse(text).err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|e| e.contains(says)), "{text}: {error:?}");
        }
        assert!(Condition::parse(&"(".repeat(10_000)).is_err());
        assert!(Condition::parse(&"not ".repeat(10_000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[a-z_0-9.<>=!()'\"+*/ é-]{0,40}") {
            if let Ok(condition) = Condition::parse(&text) {
                condition.holds(&row());
            }
        }
    }
}
