# Carries out the install steps of a Homebrew formula on the archive it names, without Homebrew: ruby scripts/formula.rb DIST. The result is DIST/brewed.
require "digest"
require "fileutils"

DIST = File.expand_path(ARGV.fetch(0))

class Prefix
  def initialize(name) = @folder = File.join(DIST, "brewed", name)
  def install(what, renamed = nil)
    FileUtils.mkdir_p(@folder)
    what, renamed = what.first if what.is_a?(Hash)
    Array(what).each { |file| FileUtils.cp(file, File.join(@folder, renamed || File.basename(file)), preserve: true) }
  end
end

class Formula
  class << self
    attr_reader :archives
    %i[desc homepage version license test].each { |field| define_method(field) { |*| } }
    def on_linux = yield
    def on_macos = nil
    def on_intel = (yield if RbConfig::CONFIG["host_cpu"] == "x86_64")
    def on_arm = (yield if RbConfig::CONFIG["host_cpu"] == "aarch64")
    def url(address) = (@archives ||= []) << [address]
    def sha256(sum) = @archives.last << sum
  end
  def bin = Prefix.new("bin")
  def man1 = Prefix.new("share/man/man1")
  def bash_completion = Prefix.new("etc/bash_completion.d")
  def zsh_completion = Prefix.new("share/zsh/site-functions")
  def fish_completion = Prefix.new("share/fish/vendor_completions.d")
end

load File.join(DIST, "plimsoll.rb")
abort "the formula names #{Plimsoll.archives.length} archives for this machine" unless Plimsoll.archives.length == 1
address, sum = Plimsoll.archives.first
archive = File.join(DIST, File.basename(address))
abort "the sum of #{archive} is another" unless Digest::SHA256.file(archive).hexdigest == sum
system("tar", "-xzf", archive, "-C", DIST, exception: true)
Dir.chdir(archive.delete_suffix(".tar.gz")) { Plimsoll.new.install }
