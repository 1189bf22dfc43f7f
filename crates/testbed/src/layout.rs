//! The structs that C and Rust share, field by field: a compiled object's own BTF against ours.

use libbpf_rs::btf::types::{Array, Composite, Int, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::{AsRawLibbpf, HasSize, OpenObject};

/// Name, offset and size of each field, bytes.
pub type Layout = Vec<(String, usize, usize)>;

/// # Panics
/// A struct of the object has another size or another field, or is not there.
pub fn assert_same(open: &OpenObject, ours: &[(&str, (usize, Layout))]) {
    // SAFETY: libbpf's object lives as long as `open`, which stays borrowed.
    let object = unsafe { open.as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(object).unwrap().expect("the object has BTF");
    for (name, layout) in ours {
        assert_eq!(of_c(&btf, name), *layout, "struct {name}");
    }
}

/// What the compiler made of a C struct: its size and its fields.
fn of_c(btf: &Btf<'_>, name: &str) -> (usize, Layout) {
    let found: Struct<'_> =
        btf.type_by_name(name).unwrap_or_else(|| panic!("the object has no struct {name}"));
    let fields = found.iter().map(|member| {
        let MemberAttr::Normal { offset } = member.attr else { panic!("a bit field in {name}") };
        let of: BtfType<'_> = btf.type_by_id(member.ty).expect("the type of a field");
        let field = member.name.expect("a name").to_string_lossy().into_owned();
        (field, offset as usize / 8, size(of))
    });
    (found.size(), fields.collect())
}

fn size(of: BtfType<'_>) -> usize {
    let of = of.skip_mods_and_typedefs();
    if let Ok(array) = Array::try_from(of) {
        return array.capacity() * size(array.contained_type());
    }
    if let Ok(composite) = Composite::try_from(of) {
        return composite.size();
    }
    Int::try_from(of).map(|int| int.size()).expect("a number, an array or a struct")
}

pub fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Size and fields of a type of ours; a field that C calls otherwise: `field = "name"`.
#[doc(hidden)]
#[macro_export]
macro_rules! of_rust {
    ($type:ty { $($field:ident $(= $c:literal)?),* $(,)? }) => {{
        let fields: $crate::layout::Layout = vec![$((
            [stringify!($field), $($c)?].last().copied().unwrap_or_default().to_owned(),
            std::mem::offset_of!($type, $field),
            $crate::layout::size_of_field(|whole: &$type| &whole.$field),
        )),*];
        (size_of::<$type>(), fields)
    }};
}
pub use of_rust;
