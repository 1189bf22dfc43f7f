//! What is maximised: arithmetic over the metrics of a run.
//!
//! ```text
//! sum:     product { (+ | -) product }
//! product: factor { (* | /) factor }
//! factor:  - factor | number | metric | min(sum, …) | max(sum, …) | log(sum) | ( sum )
//! metric:  FLOW.METRIC, or METRIC of the whole run
//! ```

use anyhow::{Result, anyhow, bail};

use crate::experiment::Experiment;
use crate::experiment::problem::instead;
use crate::metrics::{FLOW_METRICS, Measured, RUN_METRICS, WITHOUT_TRACE};

/// Nested deeper than anybody writes.
const MOST_DEPTH: u32 = 50;

#[derive(Clone, Debug, PartialEq)]
pub struct Expression(Node);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    /// Of a flow, or of the run.
    Metric(Option<String>, String),
    Negative(Box<Node>),
    Binary(char, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Min,
    Max,
    /// Natural.
    Log,
}

impl Expression {
    /// # Errors
    /// What cannot be read and where, or a metric that runs of this experiment do not have.
    pub fn parse(text: &str, experiment: &Experiment) -> Result<Expression> {
        let mut parser = Parser { text, at: 0, depth: 0, experiment };
        let node = parser.sum()?;
        match parser.peek() {
            None => Ok(Expression(node)),
            Some(found) => Err(parser.problem(&format!("'{found}' is too much"))),
        }
    }

    /// # Errors
    /// If the run lacks one of its metrics, or the result is no number.
    pub fn of(&self, run: &Measured) -> Result<f64> {
        let value = value(&self.0, run)?;
        if value.is_finite() { Ok(value) } else { bail!("the expression gives {value}") }
    }
}

fn value(node: &Node, run: &Measured) -> Result<f64> {
    Ok(match node {
        Node::Number(number) => *number,
        Node::Metric(flow, name) => {
            let numbers = match flow {
                Some(flow) => run.flows.get(flow),
                None => Some(&run.run),
            };
            let found = numbers.and_then(|numbers| numbers.get(name)).copied();
            found.ok_or_else(|| anyhow!("the run has no number for {name}"))?
        }
        Node::Negative(inner) => -value(inner, run)?,
        Node::Binary(operator, left, right) => {
            let (left, right) = (value(left, run)?, value(right, run)?);
            match operator {
                '+' => left + right,
                '-' => left - right,
                '*' => left * right,
                _ => left / right,
            }
        }
        Node::Call(function, given) => {
            let all = given.iter().map(|node| value(node, run)).collect::<Result<Vec<_>>>()?;
            match function {
                Function::Min => all.into_iter().fold(f64::INFINITY, f64::min),
                Function::Max => all.into_iter().fold(f64::NEG_INFINITY, f64::max),
                Function::Log => all[0].ln(),
            }
        }
    })
}

struct Parser<'a> {
    text: &'a str,
    /// Byte at which the rest begins.
    at: usize,
    depth: u32,
    experiment: &'a Experiment,
}

impl Parser<'_> {
    fn problem(&self, what: &str) -> anyhow::Error {
        anyhow!("'{}', character {}: {what}", self.text, self.text[..self.at].chars().count() + 1)
    }

    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    /// The next character, if it is one of these.
    fn take(&mut self, wanted: &[char]) -> Option<char> {
        let found = self.peek().filter(|it| wanted.contains(it))?;
        self.at += found.len_utf8();
        Some(found)
    }

    fn sum(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(self.problem("nested too deeply"));
        }
        let mut left = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            left = Node::Binary(operator, left.into(), self.product()?.into());
        }
        self.depth -= 1;
        Ok(left)
    }

    fn product(&mut self) -> Result<Node> {
        let mut left = self.factor()?;
        while let Some(operator) = self.take(&['*', '/']) {
            left = Node::Binary(operator, left.into(), self.factor()?.into());
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Node> {
        let mut minus = false;
        while self.take(&['-']).is_some() {
            minus = !minus;
        }
        let node = match self.peek() {
            Some('(') => {
                self.take(&['(']);
                let inner = self.sum()?;
                self.closed()?;
                inner
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number()?,
            Some(c) if c.is_alphabetic() => self.word()?,
            Some(c) => return Err(self.problem(&format!("'{c}' begins nothing"))),
            None => return Err(self.problem("it ends where a number or a metric must follow")),
        };
        Ok(if minus { Node::Negative(node.into()) } else { node })
    }

    fn closed(&mut self) -> Result<()> {
        self.take(&[')']).map(drop).ok_or_else(|| self.problem("a ')' is missing"))
    }

    fn run_of(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }

    fn number(&mut self) -> Result<Node> {
        let start = self.at;
        let word = self.run_of(|c| c.is_ascii_alphanumeric() || c == '.');
        word.parse().map(Node::Number).map_err(|_| {
            self.at = start;
            self.problem(&format!("'{word}' is no number"))
        })
    }

    fn word(&mut self) -> Result<Node> {
        let start = self.at;
        let word = self.run_of(|c| c.is_alphanumeric() || c == '.' || c == '_');
        if self.take(&['(']).is_some() {
            return self.call(&word, start);
        }
        self.metric(&word).map_err(|why| {
            self.at = start;
            self.problem(&why)
        })
    }

    fn call(&mut self, name: &str, start: usize) -> Result<Node> {
        let function = match name {
            "min" => Function::Min,
            "max" => Function::Max,
            "log" => Function::Log,
            _ => {
                self.at = start;
                let known = instead(name, ["min", "max", "log"]);
                return Err(self.problem(&format!("there is no function {name}; {known}")));
            }
        };
        let mut given = vec![self.sum()?];
        while self.take(&[',']).is_some() {
            given.push(self.sum()?);
        }
        self.closed()?;
        if function == Function::Log && given.len() != 1 {
            return Err(self.problem("log takes one number"));
        }
        Ok(Node::Call(function, given))
    }

    fn metric(&self, word: &str) -> Result<Node, String> {
        let flows = &self.experiment.flows;
        let (flow, name) = match word.rsplit_once('.') {
            Some((flow, name)) => (Some(flow), name),
            None => (None, word),
        };
        if let Some(flow) = flow.filter(|flow| !flows.contains_key(*flow)) {
            let known = instead(flow, flows.keys().map(String::as_str));
            return Err(format!("there is no flow {flow}; {known}"));
        }
        let table = if flow.is_some() { FLOW_METRICS } else { RUN_METRICS };
        if !table.iter().any(|(known, _)| *known == name) {
            let of_flow = flow.is_none() && FLOW_METRICS.iter().any(|(known, _)| *known == name);
            let first = flows.keys().next().map(String::as_str).unwrap_or_default();
            return Err(match of_flow {
                true => format!("{name} is of a flow: write {first}.{name}"),
                false => {
                    let known = instead(name, table.iter().map(|(known, _)| *known));
                    format!("no metric is called {name}; {known}")
                }
            });
        }
        if flow.is_some() && !self.experiment.record && !WITHOUT_TRACE.contains(&name) {
            return Err(format!("{name} needs a trace: the experiment has `record = false`"));
        }
        Ok(Node::Metric(flow.map(str::to_owned), name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::parse;
    use crate::made_up;

    fn experiment() -> Experiment {
        parse("x.toml".as_ref(), made_up::EXPERIMENT.to_owned()).unwrap().experiment
    }

    fn of(text: &str) -> f64 {
        let mut run = Measured::default();
        run.run.insert("sum_mbit".into(), 8.0);
        run.flows.entry("up".into()).or_default().insert("srtt_ms".into(), 50.0);
        Expression::parse(text, &experiment()).unwrap().of(&run).unwrap()
    }

    fn problem(text: &str) -> String {
        Expression::parse(text, &experiment()).unwrap_err().to_string()
    }

    #[test]
    fn arithmetic_has_its_usual_order() {
        assert_eq!(of("sum_mbit - 0.1 * up.srtt_ms"), 3.0);
        assert_eq!(of("-(sum_mbit + 2) / 4 - -1"), -1.5);
        assert_eq!(of("8 - 4 - 2"), 2.0);
        assert_eq!(of("min(sum_mbit, up.srtt_ms, 7) + max(1, 2)"), 9.0);
        assert_eq!(of("log(1)"), 0.0);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, why) in [
            ("", "character 1: it ends where"),
            ("sum_mbit +", "character 11: it ends where"),
            ("(sum_mbit", "a ')' is missing"),
            ("sum_mbit 3", "character 10: '3' is too much"),
            ("sum_mbits", "did you mean `sum_mbit`?"),
            ("goodput_mbit", "is of a flow: write up.goodput_mbit"),
            ("down.goodput_mbit", "there is no flow down"),
            ("sqrt(2)", "there is no function sqrt"),
            ("log(1, 2)", "log takes one number"),
            ("3x", "'3x' is no number"),
            ("§", "'§' begins nothing"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(why), "{text}: {problem}");
        }
        assert!(problem(&"(".repeat(1000)).contains("nested too deeply"));
    }

    #[test]
    fn a_metric_that_needs_a_trace_is_refused_where_none_is_recorded() {
        let without = Experiment { record: false, ..experiment() };
        let problem = Expression::parse("up.srtt_ms", &without).unwrap_err().to_string();
        assert!(problem.contains("needs a trace"), "{problem}");
        Expression::parse("up.goodput_mbit", &without).unwrap();
    }

    #[test]
    fn a_division_by_zero_is_no_value() {
        let zero = Expression::parse("1 / 0", &experiment()).unwrap();
        assert!(zero.of(&Measured::default()).is_err());
    }
}
