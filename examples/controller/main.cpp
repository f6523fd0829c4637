/* Computed-torque control of the arm against its own compiled simulation at 1 kHz, and the latency of the controller.

   controller [--cycles 1000000] [--real-time]

   Without --real-time cycles follow each other at once; with it they start every millisecond. Printed are the largest
   tracking error after the first second, and median, percentiles and maximum of the time of an update: the latency by the
   clock, which contains interruptions by the kernel and by other processes, and the processor time of this thread. */
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "computed_torque.hpp"

/* The simulated arm: commands are joint forces, states are positions and velocities of its joints. */
class simulated_arm : public control::system_interface {
public:
    std::vector<control::state_interface> export_state_interfaces() override {
        std::vector<control::state_interface> result;
        for (std::size_t i = 0; i < arm::n_v; i++) {
            result.emplace_back(control::interface_name{arm_joint_names[i], "position"}, &positions_[i]);
            result.emplace_back(control::interface_name{arm_joint_names[i], "velocity"}, &velocities_[i]);
        }
        return result;
    }

    std::vector<control::command_interface> export_command_interfaces() override {
        std::vector<control::command_interface> result;
        for (std::size_t i = 0; i < arm::n_v; i++)
            result.emplace_back(control::interface_name{arm_joint_names[i], "effort"}, &efforts_[i]);
        return result;
    }

    control::return_type read(control::duration, control::duration) noexcept override {
        std::copy(std::begin(simulation_.state.qpos), std::end(simulation_.state.qpos), positions_.begin());
        std::copy(std::begin(simulation_.state.vel), std::end(simulation_.state.vel), velocities_.begin());
        return simulation_.failed() ? control::return_type::error : control::return_type::ok;
    }

    control::return_type write(control::duration, control::duration) noexcept override {
        std::copy(efforts_.begin(), efforts_.end(), std::begin(simulation_.control.command));
        simulation_.step();
        return control::return_type::ok;
    }

private:
    arm::simulation simulation_;
    std::array<double, arm::n_v> positions_{}, velocities_{}, efforts_{};
};

/* Processor time of this thread [us]. */
static double thread_time() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

static void print_quantiles(const char *name, std::vector<double> &times) {
    std::sort(times.begin(), times.end());
    const auto at = [&](double share) { return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))]; };
    std::printf("%s [us]: median %.3f, 99.9 %% %.3f, 99.99 %% %.3f, maximum %.3f\n", name, at(0.5), at(0.999), at(0.9999), at(1.0));
}

int main(int n_arguments, char **arguments) {
    long n_cycles = 1000000;
    bool real_time = false;
    for (int i = 1; i < n_arguments; i++) {
        if (!std::strcmp(arguments[i], "--real-time")) real_time = true;
        if (!std::strcmp(arguments[i], "--cycles") && i + 1 < n_arguments) n_cycles = std::atol(arguments[++i]);
    }
    if (n_cycles < 1) return std::fputs("controller: --cycles is a positive number\n", stderr), 2;

    static simulated_arm robot;
    computed_torque controller;
    const control::duration period(arm::dt);
    if (controller.assign(robot.export_state_interfaces(), robot.export_command_interfaces()) != control::return_type::ok)
        return std::fputs("controller: an interface is missing\n", stderr), 1;
    std::vector<double> latencies(static_cast<std::size_t>(n_cycles)), processor_times(latencies);
    mlockall(MCL_CURRENT | MCL_FUTURE); /* no page faults, where that is permitted */
    robot.read({}, period);
    controller.on_activate();

    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    double worst_error = 0.0;
    long late = 0;
    for (long k = 0; k < n_cycles; k++) {
        const control::duration time = static_cast<double>(k) * period;
        const auto due = start + std::chrono::duration_cast<clock::duration>(time + period);
        if (robot.read(time, period) != control::return_type::ok)
            return std::fputs("controller: the simulation failed\n", stderr), 1;
        const double processor_time = thread_time();
        const auto began = clock::now();
        const control::return_type result = controller.update(time, period);
        const auto ended = clock::now();
        processor_times[static_cast<std::size_t>(k)] = thread_time() - processor_time;
        latencies[static_cast<std::size_t>(k)] = std::chrono::duration<double, std::micro>(ended - began).count();
        if (result != control::return_type::ok) return std::fputs("controller: the update failed\n", stderr), 1;
        robot.write(time, period);
        if (time.count() > 1.0) worst_error = std::max(worst_error, controller.error());
        if (real_time) {
            late += clock::now() > due;
            std::this_thread::sleep_until(due);
        }
    }
    const double seconds = control::duration(clock::now() - start).count();
    std::printf("cycles: %ld in %.3f s, late: %ld\n", n_cycles, seconds, late);
    std::printf("tracking error: %.3e\n", worst_error);
    print_quantiles("latency", latencies);
    print_quantiles("processor time", processor_times);
    return 0;
}
