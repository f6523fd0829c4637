/* Interfaces of controllers and hardware in the style of ros2_control, without ROS: named values that the hardware owns,
   controllers that claim them by name, and a life cycle. Nothing allocates after activation. */
#ifndef INTERFACES_HPP
#define INTERFACES_HPP

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace control {

using duration = std::chrono::duration<double>;

enum class return_type { ok, error };

/* Name of a value of a joint: `shoulder_pan_joint/position`. */
struct interface_name {
    std::string joint;
    std::string quantity;
    bool operator==(const interface_name &other) const {
        return joint == other.joint && quantity == other.quantity;
    }
};

/* Measured value that a controller reads. */
class state_interface {
public:
    state_interface(interface_name name, const double *value) : name_(std::move(name)), value_(value) {}
    const interface_name &name() const { return name_; }
    double get_value() const noexcept { return *value_; }

private:
    interface_name name_;
    const double *value_;
};

/* Value that a controller writes. */
class command_interface {
public:
    command_interface(interface_name name, double *value) : name_(std::move(name)), value_(value) {}
    const interface_name &name() const { return name_; }
    void set_value(double value) noexcept { *value_ = value; }

private:
    interface_name name_;
    double *value_;
};

/* A robot: the real one, or its simulation. */
class system_interface {
public:
    virtual ~system_interface() = default;
    virtual std::vector<state_interface> export_state_interfaces() = 0;
    virtual std::vector<command_interface> export_command_interfaces() = 0;
    virtual return_type read(duration time, duration period) noexcept = 0;
    virtual return_type write(duration time, duration period) noexcept = 0;
};

/* A controller. */
class controller_interface {
public:
    virtual ~controller_interface() = default;
    virtual std::vector<interface_name> state_interface_configuration() const = 0;
    virtual std::vector<interface_name> command_interface_configuration() const = 0;
    virtual return_type on_activate() = 0;
    virtual return_type update(duration time, duration period) noexcept = 0;

    /* Claim the interfaces of the configuration, in its order; error if one of them does not exist. */
    return_type assign(std::vector<state_interface> states, std::vector<command_interface> commands) {
        return claim(state_interface_configuration(), states, states_) &&
                       claim(command_interface_configuration(), commands, commands_)
                   ? return_type::ok
                   : return_type::error;
    }

protected:
    std::vector<state_interface> states_;
    std::vector<command_interface> commands_;

private:
    template <typename T>
    static bool claim(const std::vector<interface_name> &names, const std::vector<T> &offered, std::vector<T> &claimed) {
        claimed.clear();
        for (const interface_name &name : names)
            for (const T &one : offered)
                if (one.name() == name) claimed.push_back(one);
        return claimed.size() == names.size();
    }
};

} /* namespace control */

#endif
