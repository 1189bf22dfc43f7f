//! The columns of a batch by name and type, also where another program has written them: as wider
//! numbers, as plain text in the place of a dictionary.

use anyhow::{Context, Result, anyhow};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use arrow_schema::DataType;

pub(crate) fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch.column_by_name(name).with_context(|| format!("column {name} is missing"))
}

pub(crate) fn wrong(name: &str, array: &dyn Array) -> anyhow::Error {
    anyhow!("column {name} has the unexpected type {}", array.data_type())
}

/// The first of two names that the batch has.
pub(crate) fn either(batch: &RecordBatch, now: &'static str, former: &'static str) -> &'static str {
    if batch.column_by_name(now).is_some() { now } else { former }
}

/// What numbers of other widths become.
pub(crate) trait Narrow: Copy {
    fn of_integer(value: i128) -> Option<Self>;
}

macro_rules! narrow {
    ($($native:ty)*) => {$(
        impl Narrow for $native {
            fn of_integer(value: i128) -> Option<Self> {
                value.try_into().ok()
            }
        }
    )*};
}
narrow!(u8 u16 u32 u64 i64);

/// What pandas makes of a column that has no value at all.
fn is_empty(array: &dyn Array) -> bool {
    *array.data_type() == DataType::Null
}

/// The values of a column of numbers of any width; whole ones only.
fn integers(array: &dyn Array) -> Option<Vec<Option<i128>>> {
    if is_empty(array) {
        return Some(vec![None; array.len()]);
    }
    macro_rules! any_of {
        ($($type:ty)*) => {$(
            if let Some(array) = array.as_primitive_opt::<$type>() {
                return Some(array.iter().map(|value| value.map(i128::from)).collect());
            }
        )*};
    }
    any_of!(UInt8Type UInt16Type UInt32Type UInt64Type Int8Type Int16Type Int32Type Int64Type);
    // Where pandas met nulls, numbers became floating ones.
    let floats = array.as_primitive_opt::<Float64Type>()?;
    let whole = |value: f64| value.fract() == 0.0 && value.abs() < 1e18;
    let mut integers = Vec::with_capacity(floats.len());
    for value in floats {
        match value.filter(|value| !value.is_nan()) {
            None => integers.push(None),
            Some(value) if whole(value) => integers.push(Some(value as i128)),
            Some(_) => return None,
        }
    }
    Some(integers)
}

pub(crate) fn numbers<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    name: &str,
    null: T::Native,
) -> Result<ScalarBuffer<T::Native>>
where
    T::Native: Narrow,
{
    numbers_of::<T>(column(batch, name)?, name, null)
}

/// The same of a column that was found already.
pub(crate) fn numbers_of<T: ArrowPrimitiveType>(
    array: &dyn Array,
    name: &str,
    null: T::Native,
) -> Result<ScalarBuffer<T::Native>>
where
    T::Native: Narrow,
{
    let Some(own) = array.as_primitive_opt::<T>() else {
        let others = integers(array).ok_or_else(|| wrong(name, array))?;
        let narrowed = others.into_iter().map(|value| match value {
            None => Some(null),
            Some(value) => T::Native::of_integer(value),
        });
        return narrowed
            .collect::<Option<Vec<_>>>()
            .map(ScalarBuffer::from)
            .with_context(|| format!("column {name} holds a number that it cannot"));
    };
    if own.null_count() == 0 {
        return Ok(own.values().clone());
    }
    Ok(own.iter().map(|value| value.unwrap_or(null)).collect())
}

/// A column that older files do not have: all of it 0 there.
pub(crate) fn added_later(batch: &RecordBatch, name: &str) -> Result<ScalarBuffer<u32>> {
    if batch.column_by_name(name).is_none() {
        return Ok(vec![0; batch.num_rows()].into());
    }
    numbers::<UInt32Type>(batch, name, 0)
}

/// The rows in which a column of booleans is true.
pub(crate) fn booleans(batch: &RecordBatch, name: &str) -> Result<BooleanBuffer> {
    let array = column(batch, name)?;
    if is_empty(array) {
        return Ok(BooleanBuffer::new_unset(array.len()));
    }
    let array = array.as_boolean_opt().ok_or_else(|| wrong(name, array))?;
    let set = array.values();
    Ok(array.nulls().map_or_else(|| set.clone(), |nulls| set & nulls.inner()))
}

/// A column of texts, each of which may be in many rows.
pub(crate) struct Texts {
    values: ArrayRef,
    keys: Keys,
}

enum Keys {
    /// Each row has its own.
    Rows,
    /// Place among the values, or none.
    Places(Vec<Option<usize>>),
}

impl Texts {
    pub fn get(&self, row: usize) -> Option<&str> {
        let at = match &self.keys {
            Keys::Rows => row,
            Keys::Places(places) => places[row]?,
        };
        value(&self.values, at)
    }
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn value(texts: &ArrayRef, at: usize) -> Option<&str> {
    if at >= texts.len() || texts.is_null(at) {
        return None;
    }
    if let Some(texts) = texts.as_string_opt::<i32>() {
        return Some(texts.value(at));
    }
    if let Some(texts) = texts.as_string_opt::<i64>() {
        return Some(texts.value(at));
    }
    texts.as_string_view_opt().map(|texts| texts.value(at))
}

pub(crate) fn texts(batch: &RecordBatch, name: &str) -> Result<Texts> {
    let array = column(batch, name)?;
    if is_text(array.data_type()) {
        return Ok(Texts { values: array.clone(), keys: Keys::Rows });
    }
    if is_empty(array) {
        return Ok(Texts { values: array.clone(), keys: Keys::Places(vec![None; array.len()]) });
    }
    let dictionary = array.as_any_dictionary_opt().ok_or_else(|| wrong(name, array))?;
    if !is_text(dictionary.values().data_type()) {
        return Err(wrong(name, array));
    }
    let places = if dictionary.values().is_empty() {
        vec![None; array.len()]
    } else {
        let keys = dictionary.normalized_keys();
        keys.into_iter().enumerate().map(|(row, key)| array.is_valid(row).then_some(key)).collect()
    };
    Ok(Texts { values: dictionary.values().clone(), keys: Keys::Places(places) })
}

/// A column of words as the numbers of the contract; null is 0.
pub(crate) fn words(
    batch: &RecordBatch,
    name: &str,
    number: impl Fn(&str) -> Option<u8>,
) -> Result<Vec<u8>> {
    let known = |word: &str| {
        number(word).or_else(|| word.parse().ok()).with_context(|| {
            format!("column {name} holds {word:?}, which this program does not know")
        })
    };
    let array = column(batch, name)?;
    let Some(own) = array.as_dictionary_opt::<UInt8Type>() else {
        let texts = texts(batch, name)?;
        return (0..array.len()).map(|row| texts.get(row).map_or(Ok(0), known)).collect();
    };
    let numbers: Vec<Option<u8>> = (0..own.values().len())
        .map(|at| value(own.values(), at).and_then(|word| known(word).ok()))
        .collect();
    let decode = |key: Option<u8>| match key {
        None => Ok(0),
        Some(key) => match numbers.get(usize::from(key)).copied().flatten() {
            Some(number) => Ok(number),
            None => known(value(own.values(), key.into()).unwrap_or("?")),
        },
    };
    own.keys().iter().map(decode).collect()
}

/// A column of lists of pairs of numbers.
pub(crate) struct Pairs {
    /// Where the pairs of each row lie; none where there is no list.
    ranges: Vec<Option<std::ops::Range<usize>>>,
    first: ScalarBuffer<u32>,
    second: ScalarBuffer<u32>,
}

impl Pairs {
    pub fn get(&self, row: usize) -> impl Iterator<Item = [u32; 2]> {
        let range = self.ranges[row].clone().unwrap_or_default();
        range.map(|at| [self.first[at], self.second[at]])
    }

    pub fn count(&self, row: usize) -> usize {
        self.ranges[row].as_ref().map_or(0, std::ops::Range::len)
    }
}

/// `names` are those of the two numbers, each with a former one.
pub(crate) fn pairs(
    batch: &RecordBatch,
    name: &'static str,
    names: [[&'static str; 2]; 2],
) -> Result<Pairs> {
    let array = column(batch, name)?;
    let (values, ends): (&ArrayRef, Vec<usize>) = if let Some(list) = array.as_list_opt::<i32>() {
        (list.values(), list.value_offsets().iter().map(|&at| at as usize).collect())
    } else if let Some(list) = array.as_list_opt::<i64>() {
        (list.values(), list.value_offsets().iter().map(|&at| at as usize).collect())
    } else if is_empty(array) {
        let none: ScalarBuffer<u32> = Vec::new().into();
        return Ok(Pairs { ranges: vec![None; array.len()], first: none.clone(), second: none });
    } else {
        return Err(wrong(name, array));
    };
    let both = values.as_struct_opt().ok_or_else(|| wrong(name, array))?;
    let number = |[now, former]: [&'static str; 2]| {
        let of = both.column_by_name(now).or_else(|| both.column_by_name(former));
        numbers_of::<UInt32Type>(of.ok_or_else(|| wrong(name, array))?, name, 0)
    };
    let ranges = ends.windows(2).enumerate();
    let ranges = ranges.map(|(row, ends)| array.is_valid(row).then_some(ends[0]..ends[1]));
    Ok(Pairs { ranges: ranges.collect(), first: number(names[0])?, second: number(names[1])? })
}
