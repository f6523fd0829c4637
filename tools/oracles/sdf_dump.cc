// Prints what libsdformat 12 makes of an SDF (or URDF) file, as one JSON object.
//
//   sdf_dump FILE [search dirs...]
//
// A URI such as model://name/x is looked up as DIR/name/x in the search dirs.
// Poses are 4x4 matrices. Names are scoped from the top-level model on
// ("robot::arm::hand"). Infinite limits print as Infinity, which Python's json
// reads. All problems that the library reports are in "errors"; what it only
// prints (an unknown element, a version that it cannot convert) is on stderr.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <sdf/sdf.hh>

using ignition::math::Matrix3d;
using ignition::math::Pose3d;
using ignition::math::Vector3d;

namespace {

sdf::Errors errors;  // from loading and from every resolution of a pose or axis

void Collect(const sdf::Errors &more) {
  errors.insert(errors.end(), more.begin(), more.end());
}

// --- JSON text -------------------------------------------------------------

std::string Json(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "Infinity" : "-Infinity";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", v);
  return text;
}

std::string Json(bool v) { return v ? "true" : "false"; }

std::string Json(const std::string &v) {
  std::string text = "\"";
  for (unsigned char c : v) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      text += code;
    } else {
      text += c;
    }
  }
  return text + "\"";
}

// Without this a string literal would convert to bool, not to std::string.
std::string Json(const char *v) { return Json(std::string(v)); }

std::string Array(const std::vector<std::string> &items) {
  std::string text = "[";
  for (const std::string &item : items) text += (text.size() > 1 ? ", " : "") + item;
  return text + "]";
}

std::string Json(const Vector3d &v) { return Array({Json(v[0]), Json(v[1]), Json(v[2])}); }

std::string Json(const Matrix3d &m) {
  std::vector<std::string> rows;
  for (int r = 0; r < 3; ++r) rows.push_back(Json(Vector3d(m(r, 0), m(r, 1), m(r, 2))));
  return Array(rows);
}

std::string Json(const Pose3d &pose) {
  const Matrix3d m(pose.Rot());
  std::vector<std::string> rows;
  for (int r = 0; r < 3; ++r)
    rows.push_back(Array({Json(m(r, 0)), Json(m(r, 1)), Json(m(r, 2)), Json(pose.Pos()[r])}));
  rows.push_back("[0, 0, 0, 1]");
  return Array(rows);
}

struct Object {
  std::string text = "{";
  Object &Raw(const char *key, const std::string &json) {
    text += (text.size() > 1 ? ", " : "") + Json(key) + ": " + json;
    return *this;
  }
  template <typename T>
  Object &Add(const char *key, const T &value) { return Raw(key, Json(value)); }
  std::string Done() const { return text + "}"; }
};

// --- The model tree --------------------------------------------------------

template <typename T>
Pose3d PoseIn(const T &thing, const std::string &frame) {
  Pose3d pose;
  Collect(thing.SemanticPose().Resolve(pose, frame));
  return pose;
}

const char *TypeName(sdf::JointType type) {
  switch (type) {
    case sdf::JointType::BALL: return "ball";
    case sdf::JointType::CONTINUOUS: return "continuous";
    case sdf::JointType::FIXED: return "fixed";
    case sdf::JointType::GEARBOX: return "gearbox";
    case sdf::JointType::PRISMATIC: return "prismatic";
    case sdf::JointType::REVOLUTE: return "revolute";
    case sdf::JointType::REVOLUTE2: return "revolute2";
    case sdf::JointType::SCREW: return "screw";
    case sdf::JointType::UNIVERSAL: return "universal";
    default: return "invalid";
  }
}

// A collision or visual: its pose in the frame of its link.
template <typename T>
std::string ShapeJson(const T &shape, const std::string &link) {
  return Object().Add("name", shape.Name()).Add("pose", PoseIn(shape, link)).Done();
}

std::string LinkJson(const sdf::Link &link, const std::string &scope, const Pose3d &model_in_top) {
  const auto &inertial = link.Inertial();
  std::vector<std::string> collisions, visuals;
  for (uint64_t i = 0; i < link.CollisionCount(); ++i)
    collisions.push_back(ShapeJson(*link.CollisionByIndex(i), link.Name()));
  for (uint64_t i = 0; i < link.VisualCount(); ++i)
    visuals.push_back(ShapeJson(*link.VisualByIndex(i), link.Name()));
  return Object()
      .Add("name", scope + link.Name())
      .Add("pose", model_in_top * PoseIn(link, "__model__"))
      .Add("mass", inertial.MassMatrix().Mass())
      .Add("com", inertial.Pose().Pos())
      .Add("inertia", inertial.Moi())  // already turned into the link frame
      .Raw("collisions", Array(collisions))
      .Raw("visuals", Array(visuals))
      .Done();
}

std::string AxisJson(const sdf::JointAxis &axis) {
  Vector3d xyz;
  Collect(axis.ResolveXyz(xyz));  // no frame named: the joint's own
  return Object()
      .Add("xyz", xyz)
      .Add("lower", axis.Lower())
      .Add("upper", axis.Upper())
      .Add("effort", axis.Effort())
      .Add("velocity", axis.MaxVelocity())
      .Add("damping", axis.Damping())
      .Add("friction", axis.Friction())
      .Add("spring_reference", axis.SpringReference())
      .Add("spring_stiffness", axis.SpringStiffness())
      .Done();
}

std::string JointJson(const sdf::Joint &joint, const std::string &scope,
                      const Pose3d &model_in_top) {
  // parent and child may name a frame or a nested model: resolve to the link.
  std::string parent, child;
  Collect(joint.ResolveParentLink(parent));
  Collect(joint.ResolveChildLink(child));
  std::vector<std::string> axes;
  for (unsigned int i = 0; i < 2; ++i)
    if (joint.Axis(i)) axes.push_back(AxisJson(*joint.Axis(i)));
  Object object;
  object.Add("name", scope + joint.Name())
      .Add("type", TypeName(joint.Type()))
      .Add("parent", parent == "world" ? parent : scope + parent)
      .Add("child", scope + child)
      .Add("pose", model_in_top * PoseIn(joint, "__model__"))
      .Raw("axes", Array(axes));
  // rad/m and left-handed: the screw moves by -angle / thread_pitch
  if (joint.Type() == sdf::JointType::SCREW) object.Add("thread_pitch", joint.ThreadPitch());
  return object.Done();
}

std::string FrameJson(const sdf::Frame &frame, const std::string &scope,
                      const Pose3d &model_in_top) {
  std::string body;
  Collect(frame.ResolveAttachedToBody(body));
  return Object()
      .Add("name", scope + frame.Name())
      .Add("pose", model_in_top * PoseIn(frame, "__model__"))
      .Add("attached_to", scope + body)
      .Done();
}

// Appends the model and then its nested models, so that a parent comes first.
void AddModel(const sdf::Model &model, const std::string &outer_scope, const std::string &world,
              const Pose3d &top_in_world, const Pose3d &model_in_top,
              std::vector<std::string> &models) {
  const std::string name = outer_scope + model.Name();
  const std::string scope = name + "::";
  std::vector<std::string> links, joints, frames;
  for (uint64_t i = 0; i < model.LinkCount(); ++i)
    links.push_back(LinkJson(*model.LinkByIndex(i), scope, model_in_top));
  for (uint64_t i = 0; i < model.JointCount(); ++i)
    joints.push_back(JointJson(*model.JointByIndex(i), scope, model_in_top));
  for (uint64_t i = 0; i < model.FrameCount(); ++i)
    frames.push_back(FrameJson(*model.FrameByIndex(i), scope, model_in_top));

  const auto [canonical, canonical_name] = model.CanonicalLinkAndRelativeName();
  models.push_back(Object()
                       .Add("name", name)
                       .Raw("world", world.empty() ? "null" : Json(world))
                       .Add("static", model.Static())
                       .Raw("canonical_link", canonical ? Json(scope + canonical_name) : "null")
                       .Add("pose_in_top_model", model_in_top)
                       .Add("pose_in_world", top_in_world * model_in_top)
                       .Raw("links", Array(links))
                       .Raw("joints", Array(joints))
                       .Raw("frames", Array(frames))
                       .Done());
  for (uint64_t i = 0; i < model.ModelCount(); ++i) {
    const sdf::Model &nested = *model.ModelByIndex(i);
    AddModel(nested, scope, world, top_in_world,
             model_in_top * PoseIn(nested, "__model__"), models);
  }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::cerr << "usage: sdf_dump FILE [search dirs...]\n";
    return 2;
  }
  const std::vector<std::string> search(argv + 2, argv + argc);
  sdf::ParserConfig config;
  config.SetFindCallback([&search](const std::string &uri) -> std::string {
    const auto colon = uri.find("://");
    const std::string path = colon == std::string::npos ? uri : uri.substr(colon + 3);
    for (const std::string &dir : search) {
      const std::filesystem::path candidate = std::filesystem::path(dir) / path;
      if (std::filesystem::exists(candidate)) return candidate.string();
    }
    return "";
  });

  sdf::Root root;
  Collect(root.Load(argv[1], config));

  std::vector<std::string> models;
  if (const sdf::Model *model = root.Model())
    AddModel(*model, "", "", PoseIn(*model, "__root__"), Pose3d(), models);
  for (uint64_t w = 0; w < root.WorldCount(); ++w) {
    const sdf::World &world = *root.WorldByIndex(w);
    for (uint64_t i = 0; i < world.ModelCount(); ++i) {
      const sdf::Model &model = *world.ModelByIndex(i);
      AddModel(model, "", world.Name(), PoseIn(model, "world"), Pose3d(), models);
    }
  }

  std::vector<std::string> messages;
  for (const sdf::Error &error : errors)
    messages.push_back(Object()
                           .Add("code", static_cast<double>(error.Code()))
                           .Add("message", error.Message())
                           .Done());
  std::cout << Object().Raw("errors", Array(messages)).Raw("models", Array(models)).Done() << "\n";
  return 0;
}
