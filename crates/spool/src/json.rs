//! Rows as JSON objects with the names of their columns.

use serde_json::{Map, Value};

use crate::column::{Cell, Kind, Row};

pub fn to_object<T: Row>(row: &T) -> Map<String, Value> {
    let value = |cell: Cell| match cell {
        Cell::Null => Value::Null,
        Cell::Integer(number) => number.into(),
        Cell::Real(number) => number.into(),
        Cell::Text(text) => (*text).into(),
        Cell::Name(name) => name.into(),
    };
    T::columns().iter().map(|column| (column.name.into(), value((column.get)(row)))).collect()
}

/// What it does not have keeps its default, and what is not of its column's kind is left out.
pub fn of_object<T: Row>(object: &Map<String, Value>) -> T {
    let mut row = T::default();
    for column in T::columns() {
        let cell = object.get(column.name).and_then(|value| match column.kind {
            Kind::Integer | Kind::Time => value.as_i64().map(Cell::Integer),
            Kind::Real => value.as_f64().map(Cell::Real),
            Kind::Text => value.as_str().map(|text| Cell::Text(text.into())),
        });
        if let Some(cell) = cell {
            (column.put)(&mut row, cell);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaState, Decided, Decision, Time};

    #[test]
    fn a_row_comes_back_as_it_went() {
        let row = Decision {
            time: Time(7),
            cookie: u64::MAX >> 1,
            decided: Decided::State,
            now: CaState::Recovery,
            ssthresh: Some(9),
            algorithm: Some("bbr".into()),
            ..Decision::default()
        };
        assert_eq!(of_object::<Decision>(&to_object(&row)), row);
        let strange = serde_json::json!({ "cwnd": "x", "later": 1 });
        assert_eq!(of_object::<Decision>(strange.as_object().unwrap()), Decision::default());
    }
}
