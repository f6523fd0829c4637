/* Computed-torque control of the arm along a smooth periodic motion:
   tau = M(q) (a_d + kd (v_d - v) + kp (q_d - q)) + c(q, v) by one call of the recursive Newton-Euler algorithm, and the
   damping and dry friction of the joints along the motion. */
#ifndef COMPUTED_TORQUE_HPP
#define COMPUTED_TORQUE_HPP

#include <algorithm>
#include <array>
#include <cmath>

#include "arm.hpp"
#include "interfaces.hpp"

class computed_torque : public control::controller_interface {
public:
    static constexpr std::size_t n = arm::n_v;
    using vector = std::array<double, n>;
    static constexpr double slow = 0.02; /* velocity below which the compensation of dry friction is linear [rad/s, m/s] */

    /* Gains of the linear error dynamics: kp [1/s2], kd [1/s]; critically damped by default. */
    explicit computed_torque(double kp = 2500.0, double kd = 100.0) : kp_(kp), kd_(kd) {}

    std::vector<control::interface_name> state_interface_configuration() const override {
        auto names = names_of("position");
        const auto velocities = names_of("velocity");
        names.insert(names.end(), velocities.begin(), velocities.end());
        return names;
    }

    std::vector<control::interface_name> command_interface_configuration() const override { return names_of("effort"); }

    control::return_type on_activate() override {
        for (std::size_t i = 0; i < n; i++) {
            const double lower = std::max(arm_lower[i], -1.0), upper = std::min(arm_upper[i], 1.0);
            centre_[i] = states_[i].get_value();
            amplitude_[i] = 0.4 * std::min(upper - centre_[i], std::max(centre_[i] - lower, upper - centre_[i]));
        }
        amplitude_[n - 1] = amplitude_[n - 2]; /* the right finger mimics the left one */
        return control::return_type::ok;
    }

    control::return_type update(control::duration time, control::duration) noexcept override {
        vector q{}, v{}, a{}, tau{};
        error_ = 0.0;
        for (std::size_t i = 0; i < n; i++) {
            q[i] = states_[i].get_value();
            v[i] = states_[n + i].get_value();
            const double w = 1.0 + 0.2 * static_cast<double>(std::min(i, n - 2)), phase = w * time.count();
            const double q_d = centre_[i] + 0.5 * amplitude_[i] * (1.0 - std::cos(phase));
            const double v_d = v_d_[i] = 0.5 * amplitude_[i] * w * std::sin(phase);
            const double a_d = 0.5 * amplitude_[i] * w * w * std::cos(phase);
            a[i] = a_d + kd_ * (v_d - v[i]) + kp_ * (q_d - q[i]);
            error_ = std::max(error_, std::abs(q_d - q[i]));
        }
        arm::rnea(q, v, a, tau);
        for (std::size_t i = 0; i < n; i++) {
            const double resisting = arm_damping[i] * v_d_[i] + arm_friction[i] * std::tanh(v_d_[i] / slow);
            commands_[i].set_value(std::min(std::max(tau[i] + resisting, arm_min_force[i]), arm_max_force[i]));
        }
        return std::isfinite(error_) ? control::return_type::ok : control::return_type::error;
    }

    /* Largest position error of the last update [rad, m]. */
    double error() const noexcept { return error_; }

private:
    static std::vector<control::interface_name> names_of(const char *quantity) {
        std::vector<control::interface_name> names;
        for (const auto &joint : arm_joint_names) names.push_back({joint, quantity});
        return names;
    }

    double kp_, kd_, error_ = 0.0;
    vector centre_{}, amplitude_{}, v_d_{};
};

#endif
