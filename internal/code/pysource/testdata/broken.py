import torch

def first(:
    x = 1
    for i in range(3):
        y = i +
        z = i

print "python two"
values = [1, 2
def second():
    return (1 +
    return 2

class C(:
    def method(self):
        self.x = 1
%matplotlib inline
s = "not closed
t = f"{x["
ok = 1
    indented = 2
  half = 3
