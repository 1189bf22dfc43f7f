//! What a column is: its name, what it holds, where that comes from, and how a row gives and
//! takes it. One list per table; files, documentation and readers follow from it.

use std::borrow::Cow;
use std::sync::Arc;

use transom_output::plain;

use crate::values::Values;

/// A name that many rows share.
pub type Text = Arc<str>;

/// One value on its way between a row and a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(Text),
    /// One of a few.
    Name(&'static str),
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    /// Microseconds since 1970, UTC.
    Time,
    Real,
    Text,
}

/// Whether a column says something about a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// Of the machine and its protocol.
    Technical,
    /// Can be related to a person by those who have other data, too.
    Personal,
    /// An address in full, which is written only where the configuration asks for it.
    Address,
}

impl Privacy {
    pub fn name(self) -> &'static str {
        match self {
            Privacy::Technical => "technical",
            Privacy::Personal => "personal",
            Privacy::Address => "address",
        }
    }
}

pub struct Column<T> {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: &'static str,
    /// What it is, and the kernel's name of it.
    pub meaning: &'static str,
    pub privacy: Privacy,
    pub get: fn(&T) -> Cell,
    pub put: fn(&mut T, Cell),
    /// Adds those of these rows.
    pub collect: fn(&[T], &mut Values),
}

/// A type whose rows make a table.
pub trait Row: Default + 'static {
    fn columns() -> &'static [Column<Self>];

    /// Takes the boot of the kernel that its file is of, if it has a place for it.
    fn put_boot(&mut self, _boot: &Text) {}
}

/// What can be a field of a row.
pub trait Field {
    const KIND: Kind;
    fn cell(&self) -> Cell;
    fn put(&mut self, cell: Cell);
    fn collect(&self, to: &mut Values);
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Field for $type {
            const KIND: Kind = Kind::Integer;
            fn cell(&self) -> Cell {
                Cell::Integer(*self as i64)
            }
            fn put(&mut self, cell: Cell) {
                if let Cell::Integer(value) = cell {
                    *self = value as $type;
                }
            }
            fn collect(&self, to: &mut Values) {
                to.integer(*self as i64);
            }
        }

        impl Field for Option<$type> {
            const KIND: Kind = Kind::Integer;
            fn cell(&self) -> Cell {
                self.map_or(Cell::Null, |value| Cell::Integer(value as i64))
            }
            fn put(&mut self, cell: Cell) {
                *self = match cell {
                    Cell::Integer(value) => Some(value as $type),
                    _ => None,
                };
            }
            fn collect(&self, to: &mut Values) {
                if to.is_there(self.is_some()) {
                    to.integer(self.unwrap_or_default() as i64);
                }
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 }

impl Field for f64 {
    const KIND: Kind = Kind::Real;
    fn cell(&self) -> Cell {
        Cell::Real(*self)
    }
    fn put(&mut self, cell: Cell) {
        if let Cell::Real(value) = cell {
            *self = value;
        }
    }
    fn collect(&self, to: &mut Values) {
        to.real(*self);
    }
}

impl Field for Option<Text> {
    const KIND: Kind = Kind::Text;
    fn cell(&self) -> Cell {
        self.as_ref().map_or(Cell::Null, |text| Cell::Text(text.clone()))
    }
    fn put(&mut self, cell: Cell) {
        *self = match cell {
            Cell::Text(text) => Some(shown(text)),
            _ => None,
        };
    }
    fn collect(&self, to: &mut Values) {
        to.is_there(self.is_some());
        if let Some(text) = self {
            to.texts.text(text);
        }
    }
}

/// Rows are shown on terminals, and where they are read anybody may have written them.
fn shown(text: Text) -> Text {
    if let Cow::Owned(plain) = plain(&text) {
        return plain.into();
    }
    text
}

/// A moment: microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Field for Time {
    const KIND: Kind = Kind::Time;
    fn cell(&self) -> Cell {
        Cell::Integer(self.0)
    }
    fn put(&mut self, cell: Cell) {
        if let Cell::Integer(value) = cell {
            self.0 = value;
        }
    }
    fn collect(&self, to: &mut Values) {
        to.integer(self.0);
    }
}

/// Makes an enum whose values have names in files.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $enum:ident { $($(#[$doc:meta])* $value:ident = $name:literal),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $enum {
            #[default]
            $($(#[$doc])* $value),*
        }

        impl $enum {
            pub const ALL: &[$enum] = &[$($enum::$value),*];

            /// As files have it.
            pub fn name(self) -> &'static str {
                match self {
                    $($enum::$value => $name),*
                }
            }
        }

        impl $crate::Field for $enum {
            const KIND: $crate::Kind = $crate::Kind::Text;
            fn cell(&self) -> $crate::Cell {
                $crate::Cell::Name(self.name())
            }
            fn put(&mut self, cell: $crate::Cell) {
                if let $crate::Cell::Text(text) = cell
                    && let Some(found) = $enum::ALL.iter().find(|value| value.name() == &*text)
                {
                    *self = *found;
                }
            }
            fn collect(&self, to: &mut $crate::Values) {
                to.texts.name(self.name());
            }
        }
    };
}

/// The kind of a field, for [`columns!`](crate::columns).
#[doc(hidden)]
pub fn kind_of<T, F: Field>(_: fn(&T) -> &F) -> Kind {
    F::KIND
}

/// The list of a table's columns: field, unit, meaning, privacy. `boot in FIELD`: where a row keeps
/// the boot that its file is of.
#[macro_export]
macro_rules! columns {
    ($row:ty $(, boot in $boot:ident)? { $($field:ident, $unit:literal, $meaning:literal, $privacy:ident;)* }) => {
        impl $crate::Row for $row {
            fn columns() -> &'static [$crate::Column<$row>] {
                static COLUMNS: std::sync::LazyLock<Vec<$crate::Column<$row>>> =
                    std::sync::LazyLock::new(|| vec![$($crate::Column {
                        name: stringify!($field),
                        kind: $crate::kind_of(|row: &$row| &row.$field),
                        unit: $unit,
                        meaning: $meaning,
                        privacy: $crate::Privacy::$privacy,
                        get: |row| $crate::Field::cell(&row.$field),
                        put: |row, cell| $crate::Field::put(&mut row.$field, cell),
                        collect: |rows, to| {
                            for row in rows {
                                $crate::Field::collect(&row.$field, to);
                            }
                        },
                    }),*]);
                &COLUMNS
            }
            $(fn put_boot(&mut self, boot: &$crate::Text) {
                self.$boot = Some(boot.clone());
            })?
        }
    };
}
