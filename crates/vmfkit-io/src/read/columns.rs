//! Chooses the columns of a table that hold rows, weights and ids.

use crate::error::{Error, Result};
use crate::{Element, Options, Schema};
use arrow_schema::{DataType, Field, Fields};
use vmfkit::Angles;

/// The requested columns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Columns<'a> {
    /// One column of lists, or one column per coordinate. By default they are found by their types.
    pub(crate) coordinates: Option<&'a [String]>,
    /// One number per row.
    pub(crate) weight: Option<&'a str>,
    /// One string or integer per row.
    pub(crate) id: Option<&'a str>,
    /// The coordinates are these angles. By default their columns are found by name.
    pub(crate) angles: Option<Angles>,
    /// Reads no coordinates.
    pub(crate) id_alone: bool,
}

/// Column numbers of the coordinates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Coordinates {
    /// All in one column of lists.
    List(usize),
    /// One column per coordinate.
    Flat(Vec<usize>),
}

/// Columns that exist and have supported types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) coordinates: Coordinates,
    pub(crate) weight: Option<usize>,
    pub(crate) id: Option<usize>,
    /// How the coordinates are stored; the widest type if columns differ.
    pub(crate) element: Element,
    /// Coordinates per row, if the types determine it.
    pub(crate) dim: Option<usize>,
    /// The angles that the coordinates seem to hold, judging by the column names.
    pub(crate) angles: Option<Angles>,
}

impl<'a> Columns<'a> {
    /// The columns that the options name.
    pub(crate) fn of(options: &'a Options) -> Self {
        let coordinates = Some(&options.columns[..]).filter(|names| !names.is_empty());
        let (weight, id) = (options.weight_column.as_deref(), options.id_column.as_deref());
        Columns { coordinates, weight, id, angles: options.angles, id_alone: options.ids_alone }
    }

    /// Finds the columns in a table.
    pub(crate) fn choose(&self, fields: &Fields) -> Result<Chosen> {
        let weight = self.weight.map(|name| find(fields, name)).transpose()?;
        let id = self.id.map(|name| find(fields, name)).transpose()?;
        if let Some(field) = weight.map(|i| &fields[i])
            && !is_number(field.data_type())
        {
            return Err(wrong_type(field, "hold numbers to be used as weights"));
        }
        if let Some(field) = id.map(|i| &fields[i])
            && !is_id(field.data_type())
        {
            return Err(wrong_type(field, "hold text or whole numbers to be used as ids"));
        }
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        let of_angles = self.angles.map(|angles| angles.find_columns(&names)).transpose()?.flatten();
        let coordinates = match (self.coordinates, of_angles) {
            _ if self.id_alone => Coordinates::Flat(Vec::new()),
            (Some(names), _) => named(fields, names)?,
            (None, Some(columns)) => numbers(fields, columns)?,
            (None, None) => only(fields, &[weight, id])?,
        };
        let mut angles = None;
        let (element, dim) = match &coordinates {
            Coordinates::List(column) => {
                let (item, length) = list_item(fields[*column].data_type()).expect("a column that was chosen for its lists");
                (element(item), length)
            }
            Coordinates::Flat(columns) => {
                let widest = columns.iter().map(|&i| element(fields[i].data_type())).max_by_key(|element| *element as u8);
                let names: Vec<&str> = columns.iter().map(|&column| names[column]).collect();
                angles = Angles::guess(&names);
                (widest.unwrap_or(Element::F64), Some(columns.len()))
            }
        };
        if dim == Some(0) && !self.id_alone {
            return Err(Error::Format { what: "rows must have at least one number, found: `0`".into() });
        }
        Ok(Chosen { coordinates, weight, id, element, dim, angles })
    }
}

impl Chosen {
    /// The columns to read, ascending, and this choice with positions among them.
    pub(crate) fn project(&self) -> (Vec<usize>, Chosen) {
        let mut columns = match &self.coordinates {
            Coordinates::List(column) => vec![*column],
            Coordinates::Flat(columns) => columns.clone(),
        };
        columns.extend(self.weight.iter().chain(&self.id));
        columns.sort_unstable();
        columns.dedup();
        let position = |column: &usize| columns.binary_search(column).expect("a column that is read");
        let coordinates = match &self.coordinates {
            Coordinates::List(column) => Coordinates::List(position(column)),
            Coordinates::Flat(flat) => Coordinates::Flat(flat.iter().map(position).collect()),
        };
        let (weight, id) = (self.weight.as_ref().map(position), self.id.as_ref().map(position));
        let chosen = Chosen { coordinates, weight, id, ..self.clone() };
        (columns, chosen)
    }

    /// The schema of the file. A dimension of 0 means that there are no lists, so their length is
    /// unknown.
    pub(crate) fn schema(&self, dim: usize, rows: Option<u64>) -> Schema {
        Schema { angles: self.angles, ..Schema::dense(dim, self.element, rows) }
    }
}

fn find(fields: &Fields, name: &str) -> Result<usize> {
    fields.find(name).map(|(position, _)| position).ok_or_else(|| {
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        Error::Format { what: format!("there is no column {name}, found: `{}`", names.join(", ")) }
    })
}

fn named(fields: &Fields, names: &[String]) -> Result<Coordinates> {
    let columns = names.iter().map(|name| find(fields, name)).collect::<Result<Vec<_>>>()?;
    if let [column] = columns[..] {
        let field = &fields[column];
        if is_list_of_floats(field.data_type()) {
            return Ok(Coordinates::List(column));
        }
        if !is_number(field.data_type()) {
            return Err(wrong_type(field, "hold lists of floats, or numbers"));
        }
    }
    if columns.is_empty() {
        return Err(Error::Format { what: "rows need at least one column, found: `0`".into() });
    }
    numbers(fields, columns)
}

fn numbers(fields: &Fields, columns: Vec<usize>) -> Result<Coordinates> {
    match columns.iter().find(|&&column| !is_number(fields[column].data_type())) {
        Some(&column) => Err(wrong_type(&fields[column], "hold numbers, as one of several columns")),
        None => Ok(Coordinates::Flat(columns)),
    }
}

/// The only column of lists, or all columns of numbers if there are no lists.
fn only(fields: &Fields, taken: &[Option<usize>]) -> Result<Coordinates> {
    let free = || (0..fields.len()).filter(|&column| !taken.contains(&Some(column)));
    let lists: Vec<usize> = free().filter(|&column| is_list_of_floats(fields[column].data_type())).collect();
    if let [column] = lists[..] {
        return Ok(Coordinates::List(column));
    }
    if !lists.is_empty() {
        let names: Vec<&str> = lists.iter().map(|&column| fields[column].name().as_str()).collect();
        let what =
            format!("several columns hold lists of floats, found: `{}`\nhint: `--columns NAME` chooses one", names.join(", "));
        return Err(Error::Format { what });
    }
    // If there are lists of integers, columns of numbers are hardly the embedding.
    if let Some(column) = free().find(|&column| list_item(fields[column].data_type()).is_some()) {
        return Err(wrong_type(&fields[column], "hold lists of floats"));
    }
    let numbers: Vec<usize> = free().filter(|&column| is_number(fields[column].data_type())).collect();
    if numbers.is_empty() {
        let types: Vec<String> =
            fields.iter().map(|field| format!("{}: {}", field.name(), describe(field.data_type()))).collect();
        return Err(Error::Format {
            what: format!("no column holds lists of floats, or numbers, found: `{}`", types.join(", ")),
        });
    }
    Ok(Coordinates::Flat(numbers))
}

fn wrong_type(field: &Field, rule: &str) -> Error {
    let cast = match field.data_type() {
        data_type if list_item(data_type).is_some_and(|(item, _)| is_number(item)) => "\nhint: cast it to lists of float32",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "\nhint: cast it to float64",
        _ => "",
    };
    Error::Format { what: format!("column {} must {rule}, found: `{}`{cast}", field.name(), describe(field.data_type())) }
}

/// Arrow's name of a type, without the name of list items.
fn describe(data_type: &DataType) -> String {
    match list_item(data_type) {
        Some((item, _)) => format!("list of {item}"),
        None => data_type.to_string(),
    }
}

/// The type of a list's items, and their number if the type determines it.
fn list_item(data_type: &DataType) -> Option<(&DataType, Option<usize>)> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => Some((item.data_type(), None)),
        // A negative length is rejected as 0 is.
        DataType::FixedSizeList(item, length) => Some((item.data_type(), Some(usize::try_from(*length).unwrap_or(0)))),
        _ => None,
    }
}

fn is_list_of_floats(data_type: &DataType) -> bool {
    list_item(data_type).is_some_and(|(item, _)| item.is_floating())
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_floating() || data_type.is_integer()
}

fn is_id(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_id(values),
        other => other.is_integer(),
    }
}

fn element(data_type: &DataType) -> Element {
    match data_type {
        DataType::Float16 => Element::F16,
        DataType::Float32 => Element::F32,
        _ => Element::F64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", item, true)))
    }

    fn fields(columns: &[(&str, DataType)]) -> Fields {
        columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect()
    }

    fn refused(columns: &Columns, table: &[(&str, DataType)]) -> String {
        columns.choose(&fields(table)).unwrap_err().to_string()
    }

    #[test]
    fn the_only_list_is_chosen_beside_weights_and_ids() {
        let table = fields(&[("id", DataType::Utf8), ("x", list(DataType::Float16)), ("w", DataType::Int32)]);
        let chosen = Columns { weight: Some("w"), id: Some("id"), ..Default::default() }.choose(&table).unwrap();
        assert_eq!((&chosen.coordinates, chosen.weight, chosen.id), (&Coordinates::List(1), Some(2), Some(0)));
        assert_eq!((chosen.element, chosen.dim), (Element::F16, None));
    }

    #[test]
    fn without_lists_all_other_numbers_are_coordinates() {
        let table = fields(&[
            ("w", DataType::Float64),
            ("a", DataType::Float32),
            ("t", DataType::Utf8),
            ("b", DataType::Float16),
            ("n", DataType::Int64),
        ]);
        let chosen = Columns { weight: Some("w"), id: Some("n"), ..Default::default() }.choose(&table).unwrap();
        assert_eq!((&chosen.coordinates, chosen.element, chosen.dim), (&Coordinates::Flat(vec![1, 3]), Element::F32, Some(2)));
        let (columns, projected) = chosen.project();
        assert_eq!(columns, [0, 1, 3, 4]);
        assert_eq!((projected.coordinates, projected.weight, projected.id), (Coordinates::Flat(vec![1, 2]), Some(0), Some(3)));
    }

    #[test]
    fn unsupported_columns_are_named() {
        let none = Columns::default();
        assert_eq!(
            refused(&none, &[("a", list(DataType::Float32)), ("b", list(DataType::Float64))]),
            "several columns hold lists of floats, found: `a, b`\nhint: `--columns NAME` chooses one"
        );
        assert_eq!(
            refused(&none, &[("id", DataType::Int64), ("x", list(DataType::Int8))]),
            "column x must hold lists of floats, found: `list of Int8`\nhint: cast it to lists of float32"
        );
        assert_eq!(refused(&none, &[("t", DataType::Utf8)]), "no column holds lists of floats, or numbers, found: `t: Utf8`");
        let names = ["b".to_string()];
        let named = Columns { coordinates: Some(&names), ..none };
        assert_eq!(refused(&named, &[("a", DataType::Int8), ("c", DataType::Int8)]), "there is no column b, found: `a, c`");
        assert_eq!(
            refused(&Columns { id: Some("b"), ..none }, &[("b", DataType::Float32)]),
            "column b must hold text or whole numbers to be used as ids, found: `Float32`"
        );
    }
}
