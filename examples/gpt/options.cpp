#include "examples/gpt/options.h"

#include <cotangent/core/device.h>
#include <cotangent/core/error.h>
#include <cotangent/core/printable.h>
#include <cotangent/nn/io/json.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "examples/common/flags.h"
#include "examples/common/run_folder.h"

namespace {

const char* const kAbout =
    "Trains a small language model. Without arguments it learns the source code and documents of this "
    "project, "
    "character by character.";

void apply_preset(const std::string& name, Options& o) {
  o.preset = name;
  if (name == "tiny") {
    o.layers = 2, o.heads = 2, o.embd = 32, o.block = 32, o.batch = 8, o.iters = 200, o.warmup = 10;
    o.eval_interval = 50, o.eval_batches = 4, o.sample = 80;
  } else if (name == "char") {
    o.layers = 6, o.heads = 6, o.embd = 384, o.block = 256, o.batch = 64, o.iters = 5000, o.warmup = 100;
    o.lr = 1e-3, o.min_lr = 1e-4, o.dropout = 0.2, o.eval_interval = 250, o.eval_batches = 20;
  } else if (name == "gpt2") {
    o.layers = 12, o.heads = 12, o.embd = 768, o.block = 1024, o.batch = 16, o.accumulate = 32;
    o.iters = 20000, o.warmup = 700, o.lr = 6e-4, o.beta2 = 0.95, o.eval_interval = 250, o.eval_batches = 20;
  }
}

const char* const kDTypes[] = {"f32", "bf16", "f16", "pure-bf16", "pure-f16"};

CLI::Validator one_of(std::vector<std::string> names) { return CLI::IsMember(std::move(names)); }

// Flags that say where a run lives, or how much of it is done now, rather than what it is.
bool is_place(const std::string& flag) {
  return flag == "out" || flag == "resume" || flag == "minutes" || flag == "help";
}

void add_training(CLI::App& app, Options& o) {
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto positive = flags::whole_number(1), not_negative = flags::whole_number(0);
  auto* data = app.add_option_group("data");
  auto* text = data->add_option("--text", o.text, "UTF-8 text to learn; default: this project's sources")
                   ->check(flags::path());
  auto* tokens = data->add_option("--tokens", o.tokens, "token file as nanoGPT or llm.c write them")
                     ->check(flags::path());
  text->excludes(tokens);
  data->add_option("--val-tokens", o.val_tokens, "token file to evaluate on; default: the end of --tokens")
      ->check(flags::path());
  data->add_option("--val-fraction", o.val_fraction, "share of the text to evaluate on")
      ->check(flags::between(0, 0.9));
  data->add_option("--tokenizer", o.tokenizer,
                   "tokenizer.json, vocab.json or their folder; without one, characters of --text are tokens")
      ->check(flags::path());
  data->add_option("--vocab", o.vocab, "vocabulary of --tokens without --tokenizer")->transform(positive);

  auto* model = app.add_option_group("model");
  model
      ->add_option(
          "--preset", o.preset,
          "defaults of the flags below: tiny, cpu, char (6 layers, 384 wide), gpt2 (124M); auto: char "
          "on a GPU, else cpu")
      ->check(one_of({"auto", "tiny", "cpu", "char", "gpt2"}));
  model->add_option("--model", o.model, "gpt2 or llama")->check(one_of({"gpt2", "llama"}));
  model->add_option("--layers", o.layers)->transform(positive);
  model->add_option("--heads", o.heads, "must divide --embd")->transform(positive);
  model->add_option("--kv-heads", o.kv_heads, "of llama; 0: as many as heads")->transform(not_negative);
  model->add_option("--embd", o.embd, "width of the hidden states")->transform(positive);
  model->add_option("--block", o.block, "tokens of a sequence")->transform(positive);
  model->add_option("--dropout", o.dropout)->check(flags::between(0, 0.95));

  auto* machine = app.add_option_group("machine");
  machine->add_option("--device", o.device, "auto, cpu, cuda or cuda:N")->check(flags::device());
  machine
      ->add_option(
          "--dtype", o.dtype,
          "f32; bf16 or f16 with f32 weights (autocast); pure-bf16 or pure-f16 with f32 master weights")
      ->check(one_of({std::begin(kDTypes), std::end(kDTypes)}));
  machine->add_option("--threads", o.threads, "on the CPU; 0: all processors")
      ->transform(flags::whole_number(0, 1024));
  machine->add_option("--workers", o.workers, "threads that make batches for a GPU")
      ->transform(flags::whole_number(0, 64));
  machine->add_flag("--recompute", o.recompute,
                    "compute each block again in backward: less memory, a third slower");
  machine->add_option("--fused-loss", o.fused_loss,
                      "output layer and loss as one op that never holds all logits; false: as two");

  auto* training = app.add_option_group("training");
  training->add_option("--batch", o.batch, "sequences at once")->transform(positive);
  training->add_option("--accumulate", o.accumulate, "batches whose gradients make one step")
      ->transform(positive);
  training->add_option("--iters", o.iters, "steps")->transform(positive);
  training->add_option("--lr", o.lr, "learning rate at its highest")->check(flags::positive());
  training->add_option("--min-lr", o.min_lr, "at the end of cosine; below 0: a tenth of --lr")
      ->check(flags::finite());
  training->add_option("--warmup", o.warmup, "steps until --lr is reached")->transform(not_negative);
  training->add_option("--schedule", o.schedule)->check(one_of({"cosine", "constant"}));
  training->add_option("--weight-decay", o.weight_decay, "of matrices; biases and norms have none")
      ->check(flags::not_negative());
  training->add_option("--beta1", o.beta1)->check(flags::between(0, 0.9999));
  training->add_option("--beta2", o.beta2)->check(flags::between(0, 0.99999));
  training->add_option("--clip", o.clip, "largest norm of the gradient; 0: not clipped")
      ->check(flags::not_negative());
  training
      ->add_option("--ema", o.ema, "decay of averaged weights, which are evaluated and saved too; 0: none")
      ->check(flags::between(0, 0.99999));
  training->add_option("--seed", o.seed, "of weights, order and dropout")->transform(flags::seed());

  auto* telling = app.add_option_group("run");
  telling->add_option("--eval-interval", o.eval_interval, "steps between evaluations")->transform(positive);
  telling->add_option("--eval-batches", o.eval_batches, "batches of an evaluation")->transform(positive);
  telling->add_option("--sample", o.sample, "tokens that are written after an evaluation")
      ->transform(not_negative);
  telling
      ->add_option("--minutes", o.minutes,
                   "saves and ends after this time, for --resume to go on; 0: at the last step")
      ->check(flags::not_negative());
  telling->add_option("--out", o.out, "run folder; default: runs/gpt-DATE-TIME")->check(flags::path());
  telling->add_option("--resume", o.resume, "a run folder, or a checkpoint in one, to go on with")
      ->check(flags::path());
}

// config.json is a flat object that to_json() wrote: its members as "--flag=value".
std::vector<std::string> config_flags(const std::string& folder) {
  const std::string path = folder + "/config.json";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CT_CHECK(file.good() || !text.empty(), ct::IoError, "gpt", "can't read ", path,
           "; a run folder has the settings of its run there");
  const char* const help = "it is damaged: put back what this program wrote";
  const ct::io::Json settings = ct::io::parse_json({"gpt", path, "the text is", help}, text);
  CT_CHECK(settings.is_object(), ct::IoError, "gpt", path, " is no JSON object; ", help);
  std::vector<std::string> flags;
  for (const auto& [flag, value] : *settings.members()) {
    CT_CHECK(!value.list() && !value.is_object() && !value.is_null(), ct::IoError, "gpt", path, " has ",
             value.kind(), " as the value of ", ct::printable(flag), "; ", help);
    const std::string word = value.text() ? *value.text() : value.dump("gpt");
    if (!is_place(flag) && !word.empty())
      flags.push_back(std::string("--").append(flag).append("=").append(word));
  }
  return flags;
}

// The value of a flag that must be known before the others are parsed.
std::string early(const std::vector<std::string>& args, const std::string& flag) {
  std::string value;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == flag && i + 1 < args.size()) value = args[i + 1];
    if (args[i].rfind(flag + "=", 0) == 0) value = args[i].substr(flag.size() + 1);
  }
  return value;
}

// What `preset` stands for on a device.
std::string named_preset(const std::string& preset, const std::string& device) {
  if (!preset.empty() && preset != "auto") return preset;
  bool gpu = false;
  try {
    gpu = ct::parse_device(device.empty() ? "auto" : device).is_cuda();
  } catch (const ct::Error&) {}  // the parser will say so
  return gpu ? "char" : "cpu";
}

void choose_preset(const std::vector<std::string>& args, Options& o) {
  apply_preset(named_preset(early(args, "--preset"), early(args, "--device")), o);
}

std::string json_text(const std::string& text) { return ct::io::Json(text).dump("gpt"); }

// As short as it can be to be read back as the same number.
std::string exact(double value) {
  char text[40];
  for (const int digits : {6, 15, 17}) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

void parse(CLI::App& app, std::vector<std::string> args) {
  std::reverse(args.begin(), args.end());  // what CLI11 wants
  app.parse(std::move(args));
}

// Flags that would have no effect, given with others or without them.
void check_together(const CLI::App& app, const Options& o) {
  const auto refuse = [&](const char* flag, bool refused, const char* why) {
    if (refused && app.count(flag) > 0) throw CLI::ValidationError(flag, why);
  };
  refuse("--val-tokens", o.tokens.empty(),
         "it goes with --tokens; of a text, --val-fraction is evaluated on");
  refuse("--vocab", o.tokens.empty() || !o.tokenizer.empty(),
         "it goes with --tokens; a text or a --tokenizer has a vocabulary of its own");
  refuse("--kv-heads", o.model == "gpt2" && o.kv_heads > 0,
         "it goes with --model llama; gpt2 has none to share");
}

// What makes a checkpoint of another kind must stay as it was; said before anything is loaded.
void check_resumed(const Options& saved, const Options& now) {
  const auto same = [&](const char* flag, const auto& before, const auto& after) {
    CT_CHECK(before == after, ct::ValueError, "gpt", flag, " is ", after, ", the run ", now.resume, " has ",
             before, "; it can't change: leave it out, or train anew without --resume");
  };
  same("--preset", saved.preset, now.preset);
  same("--model", saved.model, now.model);
  same("--layers", saved.layers, now.layers);
  same("--heads", saved.heads, now.heads);
  same("--kv-heads", saved.kv_heads, now.kv_heads);
  same("--embd", saved.embd, now.embd);
  same("--block", saved.block, now.block);
  same("--vocab", saved.vocab, now.vocab);
  same("--batch", saved.batch, now.batch);  // the place in the data is counted in batches
  if (now.dtype.starts_with("pure-") || saved.dtype.starts_with("pure-"))
    same("--dtype", saved.dtype, now.dtype);
  if ((now.ema > 0) != (saved.ema > 0)) same("--ema", saved.ema, now.ema);
  CT_CHECK(saved.tokens.empty() == now.tokens.empty() && (now.text.empty() || now.tokens.empty()),
           ct::ValueError, "gpt", "the run ", now.resume, " learns ",
           saved.tokens.empty() ? "a text" : "a token file", ", and would get ",
           saved.tokens.empty() ? "--tokens" : "--text", "; leave that out, or train anew without --resume");
}

}  // namespace

bool parse_command_line(int argc, char** argv, CommandLine& line, int& exit_code) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const bool subcommand = !args.empty() && !args[0].empty() && args[0][0] != '-';
  const std::string resume = subcommand ? "" : early(args, "--resume");
  std::optional<Options> saved;  // of the run to go on with
  if (resume.empty()) {
    choose_preset(args, line.train);
  } else {
    saved = read_config(RunFolder::folder_of(RunFolder::checkpoint_in("gpt", resume)));
    line.train = *saved;
  }

  CLI::App app{kAbout};
  app.require_subcommand(0, 1);
  add_training(app, line.train);
  const auto machine = [](CLI::App& sub, std::string& device, std::string& dtype, int& threads) {
    sub.add_option("--device", device, "auto, cpu, cuda or cuda:N")->check(flags::device());
    sub.add_option("--dtype", dtype, "of the weights: f32, bf16 or f16")
        ->check(one_of({"f32", "bf16", "f16"}));
    sub.add_option("--threads", threads, "on the CPU; 0: all processors")
        ->transform(flags::whole_number(0, 1024));
  };

  GenerateOptionsLine& g = line.generate;
  auto* generate = app.add_subcommand("generate", "writes text with a trained model");
  generate
      ->add_option("--checkpoint,--model", g.checkpoint,
                   "run folder, checkpoint in one, or folder of a Hugging Face model")
      ->required()
      ->check(flags::path());
  generate->add_option("--prompt", g.prompt, "text to go on with");
  generate->add_option("--tokenizer", g.tokenizer, "default: the one in the folder")->check(flags::path());
  generate->add_option("--length", g.length, "tokens to write")->transform(flags::whole_number(1));
  generate->add_option("--samples", g.samples, "texts to write")->transform(flags::whole_number(1, 1 << 20));
  generate->add_option("--temperature", g.temperature, "0: always the most likely token")
      ->check(flags::not_negative());
  generate->add_option("--top-k", g.top_k, "draw from the k most likely tokens; 0: from all")
      ->transform(flags::whole_number(0));
  generate
      ->add_option("--top-p", g.top_p, "draw from the most likely tokens that have this probability together")
      ->check(flags::between(1e-6, 1));
  generate->add_option("--seed", g.seed)->transform(flags::seed());
  generate->add_flag("--ema", g.ema, "with the averaged weights of a run with --ema");
  machine(*generate, g.device, g.dtype, g.threads);

  LogitsOptions& l = line.logits;
  auto* logits = app.add_subcommand("logits", "the logits f32[B, T, V] of given tokens");
  logits
      ->add_option("--model,--checkpoint", l.model,
                   "folder of a Hugging Face model, run folder, or checkpoint")
      ->required()
      ->check(flags::path());
  logits->add_option("--tokens", l.tokens, ".npy file of integers [T] or [B, T]")
      ->required()
      ->check(flags::path());
  logits->add_option("--out", l.out, ".npy file to write")->required()->check(flags::path());
  machine(*logits, l.device, l.dtype, l.threads);

  ExportOptions& e = line.export_model;
  auto* export_model = app.add_subcommand("export", "writes a trained model as a Hugging Face folder");
  export_model->add_option("--checkpoint", e.checkpoint, "run folder, or checkpoint in one")
      ->required()
      ->check(flags::path());
  export_model->add_option("--out", e.out, "folder to write")->required()->check(flags::path());
  export_model->add_flag("--ema", e.ema, "the averaged weights of a run with --ema");

  TokenizeOptions& t = line.tokenize;
  auto* tokenize = app.add_subcommand("tokenize", "turns a text into a token file for --tokens");
  tokenize->add_option("--tokenizer", t.tokenizer, "tokenizer.json, vocab.json or their folder")
      ->required()
      ->check(flags::path());
  tokenize->add_option("--text", t.text, "UTF-8 text")->required()->check(flags::path());
  tokenize->add_option("--out", t.out, "token file to write")->required()->check(flags::path());
  tokenize->add_option("--format", t.format, "raw (nanoGPT), llmc or llmc32 (llm.c)")
      ->check(one_of({"raw", "llmc", "llmc32"}));
  tokenize->add_option("--decoded", t.decoded, "also decode the tokens into this file")->check(flags::path());

  try {
    parse(app, args);
    if (std::count(args.begin(), args.end(), "") > 0 && app.get_subcommands().empty())
      throw CLI::ExtrasError({"an argument that is empty"});
    if (app.get_subcommands().empty()) check_together(app, line.train);
    line.train.preset = named_preset(line.train.preset, line.train.device);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  if (saved) check_resumed(*saved, line.train);
  using Command = CommandLine::Command;
  line.command = generate->parsed()       ? Command::generate
                 : logits->parsed()       ? Command::logits
                 : export_model->parsed() ? Command::export_model
                 : tokenize->parsed()     ? Command::tokenize
                                          : Command::train;
  return true;
}

std::string to_json(const Options& options) {
  Options o = options;
  CLI::App app;
  add_training(app, o);
  const std::map<std::string, double> fractions = {{"val-fraction", o.val_fraction},
                                                   {"dropout", o.dropout},
                                                   {"lr", o.lr},
                                                   {"min-lr", o.min_lr},
                                                   {"beta1", o.beta1},
                                                   {"beta2", o.beta2},
                                                   {"clip", o.clip},
                                                   {"ema", o.ema},
                                                   {"weight-decay", o.weight_decay}};
  const std::set<std::string> texts = {"text",  "tokens", "val-tokens", "tokenizer", "preset",
                                       "model", "device", "dtype",      "schedule"};
  std::string out = "{";
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; }))
    for (const CLI::Option* option : group->get_options()) {
      const std::string flag = option->get_single_name();
      if (is_place(flag)) continue;
      std::string value = option->get_default_str();  // captured from `o`
      if (flag == "recompute") value = o.recompute ? "true" : "false";
      if (flag == "fused-loss") value = o.fused_loss ? "true" : "false";
      if (texts.count(flag)) value = json_text(value);
      if (const auto number = fractions.find(flag); number != fractions.end()) value = exact(number->second);
      out += (out.size() > 1 ? ",\n  " : "\n  ") + json_text(flag) + ": " + value;
    }
  return out + "\n}\n";
}

Options read_config(const std::string& folder) {
  Options o;
  const std::vector<std::string> flags = config_flags(folder);
  choose_preset(flags, o);
  CLI::App app;
  add_training(app, o);
  try {
    parse(app, flags);
    o.preset = named_preset(o.preset, o.device);
  } catch (const CLI::ParseError& error) {
    const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    CT_CHECK(false, ct::IoError, "gpt", folder, "/config.json has a ",
             unknown ? "setting that this program does not know: " : "value that can't be: ", error.what(),
             "; it is damaged or of another version");
  }
  return o;
}
