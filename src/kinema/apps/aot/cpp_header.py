"""Header-only C++17 wrapper of a compiled library: spans of fixed length, and a simulation that owns its memory."""

from __future__ import annotations

from math import prod

from .interface import Function, Interface, Parameter

SPAN = """/* View of a fixed number of contiguous scalars: of an array, a std::array or a pointer. */
template <typename T, std::size_t N>
class span {
public:
    template <typename P, typename = std::enable_if_t<std::is_pointer<P>::value && std::is_convertible<P, T *>::value>>
    explicit span(P data) noexcept : data_(data) {}
    span(T (&array)[N]) noexcept : data_(array) {}
    template <typename U>
    span(std::array<U, N> &array) noexcept : data_(array.data()) {}
    template <typename U>
    span(const std::array<U, N> &array) noexcept : data_(array.data()) {}
    T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return N; }
    T &operator[](std::size_t i) const noexcept { return data_[i]; }
    T *begin() const noexcept { return data_; }
    T *end() const noexcept { return data_ + N; }

private:
    T *data_;
};"""

SIMULATION = """/* State, inputs and working memory of one simulation; it can be copied. */
class simulation {
public:
    state_type state = PREFIX_initial_state;
    control_type control = PREFIX_initial_control;

    void reset() noexcept {
        state = PREFIX_initial_state;
        control = PREFIX_initial_control;
    }
    void step(std::int32_t n = 1) noexcept { PREFIX_step(&state, &control, n, &workspace_); }
    const observation_type &observe() noexcept {
        PREFIX_observe(&state, &control, &observation_, &workspace_);
        return observation_;
    }
    bool failed() const noexcept { return state.error[0] != 0; }

private:
    observation_type observation_{};
    workspace_type workspace_{};
};"""


def cpp_header(interface: Interface) -> str:
    """Text of the header file."""
    name, guard = interface.name, f"{interface.prefix}_HPP"
    constants = "\n".join(
        f"constexpr {'std::size_t' if isinstance(value, int) else 'double'} {constant.lower()} = "
        f"{interface.prefix}_{constant};"
        for constant, (value, _) in interface.constants.items()
    )
    structs = "\n".join(f"using {struct.name}_type = {name}_{struct.name};" for struct in interface.structs)
    functions = [_wrapper(interface, function) for function in interface.functions]
    simulation = [SIMULATION.replace("PREFIX", name)] if interface.has_simulation else []
    parts = [
        f"/* {name}: C++17 interface of the library compiled by Kinema; see {name}.h for units and memory. */",
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <array>\n#include <cstddef>\n#include <cstdint>\n#include <type_traits>\n",
        f'#include "{name}.h"\n\nnamespace {name} {{',
        f"using scalar = {name}_scalar;",
        constants,
        structs,
        SPAN,
        *(function for function in functions if function),
        *simulation,
        f"}} /* namespace {name} */\n\n#endif",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _wrapper(interface: Interface, function: Function) -> str:
    """Inline function over spans; empty for functions of a simulation."""
    if not function.takes_arrays_only:
        return ""
    parameters = ", ".join(_parameter(parameter) for parameter in function.parameters)
    arguments = ", ".join(_argument(parameter) for parameter in function.parameters)
    return (
        f"inline void {function.name}({parameters}) noexcept {{\n    {interface.name}_{function.name}({arguments});\n}}"
    )


def _parameter(parameter: Parameter) -> str:
    if parameter.kind == "int":
        return f"std::int32_t {parameter.name}"
    const = "" if parameter.is_output else "const "
    return f"span<{const}scalar, {prod(parameter.shape)}> {parameter.name}"


def _argument(parameter: Parameter) -> str:
    """Argument of the C function; matrices are pointers to rows there."""
    if parameter.kind == "int":
        return parameter.name
    if len(parameter.shape) == 1:
        return f"{parameter.name}.data()"
    const = "" if parameter.is_output else "const "
    return f"reinterpret_cast<{const}scalar (*)[{parameter.shape[1]}]>({parameter.name}.data())"
