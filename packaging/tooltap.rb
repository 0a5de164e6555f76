# A formula for Homebrew. `make package` writes it to `dist` with the version and the SHA-256 of the source archive that
# it builds; that file belongs in the folder `Formula` of a tap once the same archive is on PyPI.
class Tooltap < Formula
  desc "Daemon that serves what coding agents do as one normalized stream"
  homepage "https://pypi.org/project/tooltap/"
  url "https://files.pythonhosted.org/packages/source/t/tooltap/tooltap-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "python@3.13"

  def install
    # Packages come from PyPI as wheels, in the versions that are newest when this is installed: some need a compiler for
    # Rust or C++ otherwise.
    system Formula["python@3.13"].opt_bin/"python3.13", "-m", "venv", libexec
    system libexec/"bin/python", "-m", "pip", "install", "--no-cache-dir", "#{buildpath}[attach,gateway,hyperscan,nats,prices]"
    bin.install_symlink libexec/"bin/tooltap"
    man1.install_symlink libexec/"share/man/man1/tooltap.1"
    bash_completion.install_symlink libexec/"share/bash-completion/completions/tooltap"
    zsh_completion.install_symlink libexec/"share/zsh/site-functions/_tooltap"
    fish_completion.install_symlink libexec/"share/fish/vendor_completions.d/tooltap.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tooltap --version")
  end
end
