"""Libraries compiled for other processors, run in QEMU: the same bits as here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kit.assets import EXAMPLES, assets

from .compiled_leg import run, tool

pytestmark = pytest.mark.exhaustive

BOARD = """
#include <stdint.h>
#include "iiwa.h"

int main(void);
static void reset(void);
__attribute__((section(".vectors"), used)) static void *const vectors[2] = {(void *)0x20010000, (void *)reset};

static int semihosting(int operation, const void *argument) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void print(uint32_t word) {
    char text[10];
    int i;
    for (i = 0; i < 8; i++) text[i] = "0123456789abcdef"[(word >> (28 - 4 * i)) & 15];
    text[8] = '\\n';
    text[9] = 0;
    semihosting(0x04, text);
}

static void print_all(const float *values, int n) {
    int i;
    for (i = 0; i < n; i++) {
        union { float number; uint32_t word; } x;
        x.number = values[i];
        print(x.word);
    }
}

/* Fills the free memory below the stack, and counts how much of it a call has used. */
#define PAINT 0xC0DEC0DEu
static uint32_t *const floor_of_stack = (uint32_t *)0x20008000;
static uint32_t *top_of_paint;

__attribute__((noinline)) static void paint(void) {
    uint32_t *p;
    top_of_paint = (uint32_t *)__builtin_frame_address(0) - 8;
    for (p = floor_of_stack; p < top_of_paint; p++) *(volatile uint32_t *)p = PAINT;
}

static uint32_t used_stack(void) {
    uint32_t *p = floor_of_stack;
    while (*(volatile uint32_t *)p == PAINT) p++;
    return (uint32_t)((char *)top_of_paint - (char *)p);
}

static float q[IIWA_N_Q], v[IIWA_N_V], a[IIWA_N_V], tau[IIWA_N_V];
static float pos[IIWA_N_LINKS][3], quat[IIWA_N_LINKS][4], jacobian[6][IIWA_N_V];

int main(void) {
    int i;
    for (i = 0; i < IIWA_N_V; i++) {
        q[i] = 0.25f * (float)(i % 3) - 0.375f;
        v[i] = 0.5f - 0.125f * (float)i;
        a[i] = 0.25f * (float)i - 1.0f;
    }
    paint();
    iiwa_fk(q, pos, quat);
    print(used_stack());
    paint();
    iiwa_jacobian(IIWA_N_LINKS - 1, q, jacobian);
    print(used_stack());
    paint();
    iiwa_rnea(q, v, a, tau);
    print(used_stack());
    print_all(&pos[0][0], 3 * IIWA_N_LINKS);
    print_all(&quat[0][0], 4 * IIWA_N_LINKS);
    print_all(&jacobian[0][0], 6 * IIWA_N_V);
    print_all(tau, IIWA_N_V);
    return 0;
}

static void reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xF << 20; /* enables the floating-point unit */
    __asm__ volatile("dsb\\n\\tisb");
    main();
    semihosting(0x18, (const void *)0x20026);
    for (;;) {}
}
"""
MEMORY_MAP = """
MEMORY { flash (rx) : ORIGIN = 0x00000000, LENGTH = 4M  ram (rw) : ORIGIN = 0x20000000, LENGTH = 64K }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > flash
  .data : { *(.data*) } > ram
  .bss : { *(.bss*) *(COMMON) } > ram
}
"""
CORTEX_M4 = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-ffreestanding", "-nostdlib"]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
SIMULATE = """
#include <stdio.h>
#include "hopper.h"

static hopper_workspace workspace;

int main(void) {
    hopper_state state = hopper_initial_state;
    hopper_control control = hopper_initial_control;
    int k;
    for (k = 0; k < 100; k++) {
        control.ctrl[0] = 0.25 * (k % 7 - 3);
        hopper_step(&state, &control, 10, &workspace);
        fwrite(&state, sizeof state, 1, stdout);
    }
    return 0;
}
"""


def test_a_cortex_m4_computes_the_same_bits_within_the_stated_stack(tmp_path: Path) -> None:
    """A 7-dof arm in single precision on the board MPS2-AN386, with neither operating system nor libc."""
    gcc, qemu = tool("arm-none-eabi-gcc"), tool("qemu-system-arm")
    robot, functions = assets("urdf/kuka_iiwa/model.urdf"), ["fk", "jacobian", "rnea"]
    library = km.compile_library(robot, tmp_path, name="iiwa", target="thumbv7em", functions=functions)
    for name, text in (("board.c", BOARD), ("board.ld", MEMORY_MAP)):
        (tmp_path / name).write_text(text)
    sources = [f"-I{tmp_path}", tmp_path / "board.c", library.files["static"], "-T", tmp_path / "board.ld", "-lgcc"]
    run(gcc, *CORTEX_M4, *STRICT, "-O1", *sources, "-Wl,--no-warn-execstack", "-o", tmp_path / "board.elf")
    printed = run(qemu, "-M", "mps2-an386", "-nographic", "-semihosting", "-kernel", tmp_path / "board.elf")
    words = np.array([int(line, 16) for line in printed.split()], np.uint32)
    for name, measured in zip(functions, words[:3].tolist(), strict=True):
        assert 0 < measured <= library.stack_bytes[name]
    assert library.code_bytes < 20_000
    native = km.compile_library(robot, tmp_path / "native", name="iiwa", precision="single", functions=functions).load()
    i = np.arange(7)
    q, v, a = 0.25 * (i % 3) - 0.375, 0.5 - 0.125 * i, 0.25 * i - 1.0
    expected = [*native.fk(q), native.jacobian(native.CONSTANTS["N_LINKS"] - 1, q), native.rnea(q, v, a)]
    np.testing.assert_array_equal(words[3:].view(np.float32), np.concatenate([x.ravel() for x in expected]))
    described = km.read(robot).forward_kinematics(dict(zip(native.NAMES["joint"], q, strict=True)))
    positions = [described[name][:3, 3] for name in native.NAMES["link"]]
    np.testing.assert_allclose(expected[0], positions, atol=1e-6)


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("processor", ["aarch64", "riscv64"])
def test_linux_processors_simulate_with_the_same_bits(tmp_path: Path, processor: str, precision: str) -> None:
    gcc, qemu = tool(f"{processor}-linux-gnu-gcc"), tool(f"qemu-{processor}")
    (tmp_path / "run.c").write_text(SIMULATE)
    outputs = []
    for target, command, emulator in (("native", tool("gcc"), []), (processor, gcc, [qemu])):
        folder = tmp_path / target
        library = km.compile_library(
            EXAMPLES / "hopper/hopper.xml", folder, name="hopper", target=target, precision=precision, functions="step"
        )
        program = folder / "run"
        run(command, *STRICT, "-static", f"-I{folder}", tmp_path / "run.c", library.files["static"], "-o", program)
        outputs.append(np.frombuffer(run(*emulator, program), np.float64 if precision == "double" else np.float32))
    assert np.isfinite(outputs[0]).all()
    np.testing.assert_array_equal(*outputs)
